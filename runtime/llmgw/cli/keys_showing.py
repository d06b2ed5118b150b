"""How keys, places and limits are shown, to people and to programs; pure."""

from __future__ import annotations

from datetime import UTC, datetime

from llmgw.domain import limits
from llmgw.domain.api_keys import ApiKey
from llmgw.domain.principals import Level
from llmgw.domain.tenancy import Project, Tree

_A_PERIOD = {"day": "a day", "month": "a month", "lifetime": "in all"}


def moment(at: float | None) -> str | None:
    """A time as ISO 8601, to the second."""
    return None if at is None else datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def limits_line(level: Level) -> str:
    """What a place limits, in one line."""
    parts = [
        f"{value} {what}"
        for value, what in (
            (level.rpm, "requests a minute"),
            (level.tpm, "tokens a minute"),
            (level.concurrency, "at the same time"),
        )
        if value is not None
    ]
    if level.budget is not None:
        parts.append(f"{level.budget} micro-units {_A_PERIOD[level.period]}")
    if level.models is not None:
        parts.append(f"models {', '.join(sorted(level.models)) or 'none'}")
    return "; ".join(parts) or "no limits"


def level_document(level: Level) -> dict[str, object]:
    """A level for a program."""
    return {"scope": level.scope, "id": level.scope_id, **limits.told(level)}


def project_path(tree: Tree, project_id: str) -> str:
    """The names above a project; its id where it is not in the tree that was read."""
    found: Project | None = next((p for p in tree.projects if p.project_id == project_id), None)
    return project_id if found is None else tree.path(found)


def key_document(key: ApiKey, *, now: float, tree: Tree) -> dict[str, object]:
    """A key for a program; never a hash."""
    return {
        "id": key.key_id,
        "prefix": key.prefix,
        "name": key.name,
        "project": key.project_id,
        "path": project_path(tree, key.project_id),
        "user": key.user_id,
        "band": key.band,
        "state": str(key.state(now)),
        "created_at": key.created_at,
        "created_by": key.created_by,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
        "previous_until": key.previous_until,
    }
