"""``llmgw ctl explain-placement``: why a model runs where it does, or nowhere."""

from __future__ import annotations

import click

from llmgw.cli import completing
from llmgw.cli.asking import Asking, asks
from llmgw.cli.failures import ExitCode
from llmgw.cli.screens import Column, Row, Screen
from llmgw.domain.placement_views import ChosenPlacement, PlacementView, ProfileVerdict

_GATE_COLUMNS = (Column("GATE"), Column("STATE", is_state=True), Column("DETAIL", is_whole=True))
_NODE_COLUMNS = (Column("NODE"), Column("FITS", is_state=True), Column("REASON", is_whole=True))


@click.command("explain-placement")
@click.argument("model", shell_complete=completing.models)
@asks
@click.pass_context
def explain_placement(ctx: click.Context, asking: Asking, *, model: str) -> None:
    """Show every condition and every node's verdict for MODEL; exit code 7 if no node takes it.

    \b
    llmgw ctl explain-placement llama
    """  # noqa: D301 - click reads \b
    answer = asking.client.explain(model)
    if asking.is_json:
        asking.screen.document(answer.document)
    else:
        _show(asking.screen, answer.value)
    if answer.value.is_unplaced:
        ctx.exit(ExitCode.CHECK_SAID_NO)


def _show(screen: Screen, placement: PlacementView) -> None:
    counts = f"{placement.want} wanted, {placement.ready} ready, {placement.starting} starting"
    screen.facts([("MODEL", placement.model), ("REPLICAS", counts), ("RESULT", _result(placement))])
    screen.line()
    gates = [Row((g.name, "open" if g.is_open else "shut", g.detail)) for g in placement.gates]
    screen.table(_GATE_COLUMNS, gates)
    for profile in placement.profiles:
        screen.line()
        _show_profile(screen, profile)


def _result(placement: PlacementView) -> str:
    if placement.is_satisfied:
        return "nothing is missing"
    if placement.chosen is None:
        return "no node takes it"
    shut = [gate.name for gate in placement.gates if not gate.is_open]
    where = f"{_chosen(placement.chosen)} (profile {placement.chosen.profile})"
    return f"would go to {where}, held by: {', '.join(shut)}" if shut else f"goes to {where}"


def _chosen(chosen: ChosenPlacement) -> str:
    return ", ".join(
        f"{s.node_id} gpu {','.join(map(str, s.gpu_indices))}" if s.gpu_indices else s.node_id
        for s in chosen.shards
    )


def _show_profile(screen: Screen, profile: ProfileVerdict) -> None:
    needs = f"{profile.engine} on {profile.gpu_class or 'cpu'}, priority {profile.priority}"
    screen.facts([(f"PROFILE {profile.profile}", needs)])
    if profile.summary:
        screen.line(profile.summary)
    verdicts = [Row((n.node_id, "yes" if n.is_fit else "no", n.reason)) for n in profile.nodes]
    screen.table(_NODE_COLUMNS, verdicts)
