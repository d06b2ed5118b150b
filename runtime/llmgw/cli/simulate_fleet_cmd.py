"""``llmgw simulate fleet``: days of a fleet on a clock that jumps, decided by the real decider."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import yaml

from llmgw.cli import screens, simulate_options, trial_showing
from llmgw.cli.failures import ExitCode
from llmgw.cli.params import DURATION, Duration
from llmgw.domain import catalog_rules, definitions
from llmgw.domain.catalog import Catalog
from llmgw.domain.nodes import NodeFacts
from llmgw.errors import Invalid
from llmgw.kit import logs
from llmgw.simulator import fleet_picture, machines, made_up_models
from llmgw.simulator.daylight import DAY_S
from llmgw.simulator.fleet_trial import FleetTrial, TrialOutcome, TrialPlan
from llmgw.simulator.mishaps import Kind, Rates
from llmgw.simulator.sim_shards import Habits

_SAY_EVERY_S = 5.0
_OF_NODES = frozenset({Kind.LOSS, Kind.FLAP, Kind.DRAIN})


@click.command()
@click.option("--nodes", "count", type=click.IntRange(1, 9999), default=100, show_default=True)
@click.option("--days", type=click.FloatRange(0.01, 366.0), default=1.0, show_default=True)
@click.option(
    "--failures",
    type=simulate_options.FAILURES,
    default="usual",
    show_default=True,
    metavar="WORD|KIND=TIME,...",
    help="none, usual, harsh, or how long one node (loss, flap, drain), one engine (crash) or the "
    "fleet (mass) goes without, such as loss=30d,mass=1d; what comes later replaces.",
)
@simulate_options.hardware
@click.option(
    "--models",
    "models_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML with the models, as in a server's settings.  [default: some that suit the hardware]",
)
@simulate_options.seeded
@click.option("--load-time", "load_s", type=DURATION, default="90s", show_default=True)
@click.option(
    "--slow-loads", type=click.FloatRange(0.0, 1.0), default=0.05, show_default=True,
    help="Share of loads that take ten times as long.",
)  # fmt: skip
@click.option(
    "--lost-for", "lost_for_s", type=DURATION, default="30m", show_default=True,
    help="How long a node without power stays away.",
)  # fmt: skip
@click.option(
    "--mass-share", type=click.FloatRange(0.01, 1.0), default=0.2, show_default=True,
    help="Share of the nodes that lose power together; above 0.3 the brake is put on.",
)  # fmt: skip
@click.option(
    "--sessions", type=click.FloatRange(min=0.0), default=4.0, show_default=True,
    help="How often a day somebody uses a model that is loaded on demand.",
)  # fmt: skip
@click.option("--session-time", "session_s", type=Duration(at_least_s=60), default="30m",
              show_default=True)  # fmt: skip
@click.option("--cold", "is_cold", is_flag=True, help="Begin with nothing running.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write fleet.svg, a picture of it, and fleet.json into this folder.",
)
@click.option("--json", "is_json", is_flag=True, help="One JSON document, for programs.")
@click.pass_context
def fleet(
    ctx: click.Context,
    /,
    *,
    count: int,
    days: float,
    failures: Mapping[Kind, float],
    hardware: Sequence[str],
    models_file: Path | None,
    seed: int | None,
    load_s: float,
    slow_loads: float,
    lost_for_s: float,
    mass_share: float,
    sessions: float,
    session_s: float,
    is_cold: bool,
    out: Path | None,
    is_json: bool,
) -> None:
    """See what the control plane makes of days of a fleet, within minutes.

    The passes are those of 'llmgw server'; nodes, engines, mishaps and users are made up, and the
    clock jumps from one thing that happens to the next. The same seed has the same course. Ends
    with 7 when something that must always hold did not: a card held twice, or a model that waited
    where there was room.

    \b
    llmgw simulate fleet --nodes 500 --days 7 --failures harsh --out week
    llmgw simulate fleet --nodes 20 --models models.yaml --failures loss=2d,mass=12h
    """  # noqa: D301 - click reads \b
    logs.setup(level="error")
    nodes = _nodes(count, hardware)
    catalog = _catalog(models_file, nodes)
    often = _in_all(failures, catalog=catalog, count=count)
    plan = TrialPlan(
        nodes=nodes,
        catalog=catalog,
        for_s=days * DAY_S,
        seed=simulate_options.drawn(seed),
        rates=Rates(often, lost_for_s=lost_for_s, mass_share=mass_share),
        habits=Habits(load_s=load_s, slow_share=slow_loads),
        sessions_a_day=sessions,
        session_s=session_s,
        is_cold=is_cold,
    )
    outcome = FleetTrial(plan, on_progress=_Progress(plan.for_s).show).run()
    _tell(outcome, plan=plan, out=out, is_json=is_json)
    if outcome.checks.broken:
        ctx.exit(ExitCode.CHECK_SAID_NO)


class _Progress:
    """Says now and then on standard error how far the days have come."""

    def __init__(self, for_s: float) -> None:
        self._for_s = for_s
        self._said_at = time.monotonic()

    def show(self, at_s: float) -> None:
        now = time.monotonic()
        if now - self._said_at >= _SAY_EVERY_S:
            self._said_at = now
            click.echo(f"day {at_s / DAY_S:.2f} of {self._for_s / DAY_S:g}", err=True)


def _tell(outcome: TrialOutcome, *, plan: TrialPlan, out: Path | None, is_json: bool) -> None:
    screen, document = screens.standard(), trial_showing.document(outcome, plan=plan)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "fleet.json").write_text(json.dumps(document, indent=2) + "\n")
        title = f"{len(plan.nodes)} nodes over {plan.for_s / DAY_S:g} days, seed {plan.seed}"
        picture = fleet_picture.svg(outcome.books.spans, title=title, for_s=plan.for_s)
        (out / "fleet.svg").write_text(picture)
    if is_json:
        screen.document(document)
        return
    trial_showing.summary(screen, outcome, plan=plan)
    if out is not None:
        screen.line(f"the picture is {out / 'fleet.svg'}")


def _nodes(count: int, hardware: Sequence[str]) -> tuple[NodeFacts, ...]:
    kinds = machines.load(hardware)
    return tuple(
        machines.node(kinds[i % len(kinds)], number=i + 1, prefix="sim", serves=False)
        for i in range(count)
    )


def _catalog(file: Path | None, nodes: Sequence[NodeFacts]) -> Catalog:
    if file is None:
        return catalog_rules.build(made_up_models.for_nodes(nodes))
    try:
        written = yaml.safe_load(file.read_text())
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise Invalid(f"{file} is no YAML: {error}") from error
    raw = written.get("models") if isinstance(written, dict) else written
    models = definitions.load(raw, path=f"{file}: models")
    if not models:
        raise Invalid(f"{file} has no models: give a list, or a mapping with the key 'models'")
    return catalog_rules.build(models)


def _in_all(
    failures: Mapping[Kind, float], *, catalog: Catalog, count: int
) -> Mapping[Kind, float]:
    """How often in the whole fleet, from how often for a single one."""
    wanted = sum(m.scaling.min for m in catalog.models.values() if m.scaling is not None)
    many = dict.fromkeys(_OF_NODES, count) | {Kind.CRASH: max(1, wanted), Kind.MASS: 1}
    return {kind: every_s / many[kind] for kind, every_s in failures.items()}
