"""What the log of acts is told of a change of the catalog: no value that may be a secret."""

from __future__ import annotations

from collections.abc import Sequence

from llmgw.api.acting import Act
from llmgw.domain import weights
from llmgw.domain.catalog_views import ModelChange, Outcome

_MOST_FIELDS = 50


def note(act: Act, outcome: Outcome, *, is_trial: bool) -> None:
    """Have the act tell what has changed, and which entries."""
    act.changes_nothing = is_trial
    changes = outcome.changes
    act.before = _values(changes, "before")
    act.after = _values(changes, "after")
    if len(changes) == 1:
        act.target = changes[0].name


def _values(changes: Sequence[ModelChange], side: str) -> dict[str, object]:
    told: dict[str, object] = {}
    for change in changes:
        told[change.name] = str(change.kind)
        for field in change.fields:
            value = getattr(field, side)
            if value is not None and len(told) < _MOST_FIELDS:
                told[f"{change.name}.{field.path}"] = _told(field.path, value)
    return told


def _told(path: str, value: object) -> object:
    if path == "source":
        return weights.shown(str(value))
    if path.endswith(".args") and isinstance(value, list):
        return [str(word).partition("=")[0] for word in value if str(word).startswith("-")]
    return value
