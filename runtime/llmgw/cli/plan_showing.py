"""Shows what passes would do, as tables for people."""

from __future__ import annotations

from llmgw.cli import figures
from llmgw.cli.screens import Column, Row, Screen
from llmgw.domain.outlooks import ActionView, OutlookView, PlanView

_ACTION_COLUMNS = (
    Column("ACTION", is_whole=True),
    Column("MODEL"),
    Column("REPLICA", is_whole=True),
    Column("NODES", is_whole=True),
    Column("REASON"),
)
_WAIT_COLUMNS = (Column("NOT PLACED", is_whole=True), Column("REASON", is_whole=True))
_MODEL_COLUMNS = (
    Column("MODEL", is_whole=True),
    Column("WANTED"),
    Column("BEFORE"),
    Column("AFTER"),
    Column("REASON", is_whole=True),
)


def plan(screen: Screen, view: PlanView) -> None:
    """The next pass."""
    if view.actions:
        screen.table(_ACTION_COLUMNS, [Row(_cells(action)) for action in view.actions])
    else:
        screen.line("the next pass has nothing to do")
    if view.waits:
        screen.line()
        rows = [Row((model, reason)) for model, reason in sorted(view.waits.items())]
        screen.table(_WAIT_COLUMNS, rows)


def outlook(screen: Screen, view: OutlookView) -> None:
    """What would come of a change."""
    screen.line("if every start serves at once and every stop is confirmed; nothing is applied")
    screen.line()
    if view.passes:
        columns = (Column("AFTER", is_whole=True), *_ACTION_COLUMNS)
        rows = [
            Row((figures.age(one.after_s) if i == 0 else "", *_cells(action)))
            for one in view.passes
            for i, action in enumerate(one.actions)
        ]
        screen.table(columns, rows)
    else:
        screen.line("no pass would do anything")
    screen.line()
    if view.models:
        rows = [
            Row((m.model, str(m.want), str(m.before), str(m.after), m.reason)) for m in view.models
        ]
        screen.table(_MODEL_COLUMNS, rows)
    else:
        screen.line("every model has as many replicas as before")
    if not view.is_complete:
        screen.line("something is left to do at the end of what was looked at")


def _cells(action: ActionView) -> tuple[str | None, ...]:
    return (
        action.kind,
        action.model,
        action.replica_id,
        figures.listed(action.node_ids) if action.node_ids else None,
        action.reason,
    )
