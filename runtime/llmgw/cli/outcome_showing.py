"""Says what has become of the catalog, or would become of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from llmgw.cli.screens import Screen
from llmgw.domain.catalog_views import ChangeKind, FieldChange, ModelChange, Outcome

_SIGNS: Mapping[ChangeKind, str] = {
    ChangeKind.ADD: "+",
    ChangeKind.CHANGE: "~",
    ChangeKind.REMOVE: "-",
}
_WORDS: Mapping[ChangeKind, tuple[str, str]] = {
    ChangeKind.ADD: ("added", "would be added"),
    ChangeKind.CHANGE: ("changed", "would be changed"),
    ChangeKind.REMOVE: ("removed", "would be removed"),
}
_UNSET = "not set"


def show(screen: Screen, outcome: Outcome, *, is_trial: bool) -> None:
    """One line for each entry that changes, with its values under it."""
    for change in outcome.changes:
        word = _WORDS[change.kind][is_trial]
        screen.line(f"{_SIGNS[change.kind]} {change.name} {word}", style="bold")
        for line in _under(change):
            screen.line(f"    {line}")
    if not outcome.changes:
        screen.line("nothing changes" if is_trial else "nothing has changed: it is so already")
    for source in outcome.sources:
        if source.detail:
            screen.line(f"{source.source}: {source.detail}")


def _under(change: ModelChange) -> Iterator[str]:
    if change.kind is ChangeKind.CHANGE:
        yield from map(_field, change.fields)
    if change.stale_profiles:
        yield (
            f"replicas of {', '.join(change.stale_profiles)} run on as they are; "
            f"'llmgw ctl model roll {change.name}' replaces them"
        )
    if change.kind is ChangeKind.REMOVE:
        yield "its replicas drain and stop"


def _field(field: FieldChange) -> str:
    if field.before == field.after:  # both are hidden, or it would be no change
        return f"{field.path}: another value, which is not shown"
    return f"{field.path}: {_value(field.before)} -> {_value(field.after)}"


def _value(value: object) -> str:
    if value is None:
        return _UNSET
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
