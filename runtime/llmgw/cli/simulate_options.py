"""Options of ``llmgw simulate`` that belong together, each group handed over as one value."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import click

from llmgw.cli.option_groups import Command, Option, bundled
from llmgw.cli.params import DURATION
from llmgw.errors import Invalid
from llmgw.kit import units
from llmgw.simulator import machines
from llmgw.simulator.behaviour import Behaviour
from llmgw.simulator.mishaps import Kind, Rates
from llmgw.simulator.sim_shards import Habits

_SEED_BITS = 32

hardware: Option = click.option(
    "--hardware",
    multiple=True,
    metavar="FILE|NAME",
    help="What nodes look like, in turns; a JSON file, or one that comes along: "
    f"{', '.join(machines.shipped())}.  [default: all of these]",
)
seeded: Option = click.option(
    "--seed", type=int, help="Makes loads and mishaps those of an earlier run."
)

_HABITS: Sequence[Option] = (
    click.option(
        "--load-time",
        "load_s",
        type=DURATION,
        default="5s",
        show_default=True,
        help="The median of the time that a model takes to load.",
    ),
    click.option(
        "--slow-loads",
        "slow_share",
        type=click.FloatRange(0.0, 1.0),
        default=0.0,
        show_default=True,
        help="Share of loads that take ten times as long.",
    ),
    click.option(
        "--serve/--no-serve",
        "serves",
        default=True,
        help="Whether engines answer on loopback, or are only said to run.  [default: serve]",
    ),
    click.option("--ttft-ms", type=click.FloatRange(min=0.0), default=50.0, show_default=True),
    click.option("--tpot-ms", type=click.FloatRange(min=0.0), default=10.0, show_default=True),
)

_RATES: Sequence[Option] = (
    click.option("--lose-every", type=DURATION, help="A node loses power, on average so often."),
    click.option("--lost-for", "lost_for_s", type=DURATION, default="90s", show_default=True),
    click.option(
        "--flap-every", type=DURATION, help="A node's stream is cut several times in a row."
    ),
    click.option(
        "--cut-for",
        "cut_s",
        type=DURATION,
        default="8s",
        show_default=True,
        help="How long each of these cuts takes, and the time until the next one.",
    ),
    click.option("--crash-every", type=DURATION, help="An engine that serves is killed."),
)


def habits(command: Command) -> Command:
    """Add how simulated engines behave; the command takes it as ``habits``."""
    return bundled(command, _HABITS, name="habits", make=_habits)


def rates(command: Command) -> Command:
    """Add how often mishaps happen; the command takes it as ``rates``."""
    return bundled(command, _RATES, name="rates", make=_rates)


def drawn(seed: int | None) -> int:
    """The seed that was given, or one that nobody chose."""
    return random.SystemRandom().getrandbits(_SEED_BITS) if seed is None else seed


class Failures(click.ParamType[Mapping[Kind, float]]):
    """How often a single node or engine meets each kind of mishap."""

    name = "failures"

    _WORDS: Mapping[str, Mapping[Kind, str]] = {
        "none": {},
        "usual": {
            Kind.LOSS: "60d",
            Kind.FLAP: "60d",
            Kind.CRASH: "30d",
            Kind.MASS: "3d",
            Kind.DRAIN: "90d",
        },
        "harsh": {
            Kind.LOSS: "7d",
            Kind.FLAP: "7d",
            Kind.CRASH: "5d",
            Kind.MASS: "1d",
            Kind.DRAIN: "14d",
        },
    }

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Mapping[Kind, float]:
        """Seconds between two of each kind, or a usage error that says what is legal."""
        if isinstance(value, Mapping):
            return value
        found: dict[Kind, float] = {}
        for part in str(value).split(","):
            word = part.strip()
            if word in self._WORDS:
                found |= {kind: units.seconds(often) for kind, often in self._WORDS[word].items()}
                continue
            name, _, often = word.partition("=")
            try:
                found[Kind(name)] = units.seconds(often)
            except (ValueError, Invalid):
                self.fail(f"{word!r} is neither {self.legal()}", param, ctx)
        return {kind: every_s for kind, every_s in found.items() if every_s}

    def legal(self) -> str:
        """What may be written, for people."""
        kinds = ", ".join(f"{kind}=30d" for kind in Kind)
        return f"{', '.join(self._WORDS)} nor one of {kinds}; separate several with commas"


FAILURES = Failures()


def _habits(
    *, load_s: float, slow_share: float, serves: bool, ttft_ms: float, tpot_ms: float
) -> Habits:
    return Habits(
        load_s=load_s,
        slow_share=slow_share,
        serves=serves,
        behaviour=Behaviour(ttft_ms=ttft_ms, tpot_ms=tpot_ms),
    )


def _rates(
    *,
    lose_every: float | None,
    lost_for_s: float,
    flap_every: float | None,
    cut_s: float,
    crash_every: float | None,
) -> Rates:
    often = {Kind.LOSS: lose_every, Kind.FLAP: flap_every, Kind.CRASH: crash_every}
    return Rates(
        every_s={kind: every_s for kind, every_s in often.items() if every_s},
        lost_for_s=lost_for_s,
        cut_s=cut_s,
    )
