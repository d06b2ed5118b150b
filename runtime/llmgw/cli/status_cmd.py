"""``llmgw ctl status``: the fleet on one page."""

from __future__ import annotations

import click

from llmgw.cli import figures, gateways_showing, watching
from llmgw.cli.asking import Asking, asks
from llmgw.cli.screens import Column, Row, Screen
from llmgw.domain.status_views import ClassTotals, ControlView, StatusView


@click.command()
@watching.option
@asks
def status(asking: Asking, *, watch_s: float | None) -> None:
    """Show the fleet on one page: counts, cards, what is missing and why.

    \b
    llmgw ctl status
    llmgw ctl status --watch 5s
    """  # noqa: D301 - click reads \b
    watching.show(asking, ask=asking.client.status, draw=_show, watch_s=watch_s)


def _show(screen: Screen, page: StatusView) -> None:
    _show_counts(screen, page)
    gateways_showing.show(screen, page.control.gateways)
    _show_cards(screen, page)
    _show_lists(screen, page)


def _show_counts(screen: Screen, page: StatusView) -> None:
    screen.facts(
        [
            ("CONTROL", _control(page.control)),
            ("NODES", figures.counts(page.nodes_by_state)),
            ("MODELS", figures.counts(page.models_by_status)),
            ("REPLICAS", figures.counts(page.replicas_by_state)),
        ]
    )
    if page.control.brake is not None:
        brake = page.control.brake
        screen.line(
            f"{len(brake.node_ids)} nodes fell silent at once {figures.age(brake.since_s)} ago: "
            f"none is given up and nothing is placed, for {figures.age(brake.ends_in_s)} at most",
            style="yellow",
        )


def _control(control: ControlView) -> str:
    role = f"leader, term {control.term}" if control.is_leader else "standby"
    line = f"{role}, up {figures.age(control.uptime_s)}, llmgw {control.version}"
    if control.settling_left_s is None:
        return line
    return f"{line}; waits {figures.age(control.settling_left_s)} more for nodes before it places"


def _show_cards(screen: Screen, page: StatusView) -> None:
    if page.gpu_classes:
        screen.line()
        columns = [Column(h) for h in ("GPU CLASS", "USED", "FREE", "UNHEALTHY")]
        if screen.is_terminal:
            columns.append(Column(""))
        rows = [Row(_class_cells(c, has_bar=screen.is_terminal)) for c in page.gpu_classes]
        screen.table(columns, rows)
    if page.fabrics:
        screen.line()
        rows = [Row((f.fabric, str(f.nodes), str(f.whole_free_nodes))) for f in page.fabrics]
        screen.table([Column(h) for h in ("FABRIC", "NODES", "WHOLLY FREE")], rows)


def _class_cells(totals: ClassTotals, *, has_bar: bool) -> list[str]:
    cells = [totals.gpu_class, str(totals.used), str(totals.free), str(totals.unhealthy)]
    if has_bar:
        cells.append(figures.bar(part=totals.used, whole=totals.used + totals.free))
    return cells


def _show_lists(screen: Screen, page: StatusView) -> None:
    if page.control.skipped_models:
        screen.line()
        skipped = [Row(one) for one in page.control.skipped_models.items()]
        screen.table([Column("STORED MODEL LEFT OUT"), Column("REASON", is_whole=True)], skipped)
    if page.unplaced:
        screen.line()
        rows = [Row((u.model, u.reason)) for u in page.unplaced]
        screen.table([Column("MISSING REPLICAS"), Column("REASON", is_whole=True)], rows)
    if page.idle:
        screen.line()
        rows = [Row((i.replica_id, i.model, figures.age(i.idle_s))) for i in page.idle]
        screen.table([Column("IDLE REPLICA"), Column("MODEL"), Column("IDLE")], rows)
