"""What limits mean: which may be written, when a period begins, how a refusal is told; pure.

Absent is not zero: an absent limit never limits, a budget of 0 refuses every model with a price.
A rate or a concurrency of 0 is refused when it is written, since an empty list of models is what
closes a place.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from llmgw.domain.principals import PERIODS, SCOPES, Level, Period, Scope
from llmgw.errors import Invalid, LimitReached

LimitKind = Literal["requests", "tokens", "budget", "concurrency"]

MAX_LIMIT = 2**62
"""Counters have 64 bits, and a request may cross a budget."""

_WHAT: dict[LimitKind, str] = {
    "requests": "requests in a minute",
    "tokens": "tokens in a minute",
    "budget": "micro-units of its budget",
    "concurrency": "requests at the same time",
}
_WHOSE: dict[Scope, str] = {
    "org": "the organisation",
    "team": "the team",
    "project": "the project",
    "key": "the key",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Which limit of which place let a request not in."""

    kind: LimitKind
    scope: Scope
    scope_id: str
    limit: int
    used: int
    retry_after_s: float | None = None
    """When it may go; absent where waiting does not help, or nobody knows."""


def check(level: Level) -> None:
    """``Invalid`` where these limits may not be written; says what to write instead."""
    if level.scope not in SCOPES:
        raise Invalid(f"there is no scope {level.scope!r}: give one of {', '.join(SCOPES)}")
    if level.period not in PERIODS:
        raise Invalid(f"there is no period {level.period!r}: give one of {', '.join(PERIODS)}")
    for name in ("rpm", "tpm", "concurrency"):
        value: int | None = getattr(level, name)
        if value is not None and not 0 < value <= MAX_LIMIT:
            raise Invalid(
                f"{name} {value} is no limit: give 1 to {MAX_LIMIT}, or none for no limit; "
                "an empty list of models closes a place"
            )
    if level.budget is not None and not 0 <= level.budget <= MAX_LIMIT:
        raise Invalid(
            f"a budget of {level.budget} is none: give 0 to {MAX_LIMIT} micro-units, "
            "or none for no limit"
        )
    if any(not name.strip() for name in level.models or ()):
        raise Invalid("a model without a name is in the list of models")


def period_start(period: Period, now: float) -> float:
    """When the period began that ``now`` is in, by UTC; 0 for one that never ends."""
    if period == "lifetime":
        return 0.0
    moment = datetime.fromtimestamp(now, tz=UTC)
    start = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return (start.replace(day=1) if period == "month" else start).timestamp()


def reached(refusal: Refusal) -> LimitReached:
    """The error that tells a client of a refusal."""
    limit = f"{_WHOSE[refusal.scope]} {refusal.scope_id} has {refusal.limit}"
    return LimitReached(
        f"{limit} {_WHAT[refusal.kind]}, and {refusal.used} are used",
        limit_kind=refusal.kind,
        scope=refusal.scope,
        scope_id=refusal.scope_id,
        retry_after_s=refusal.retry_after_s,
    )


def told(level: Level) -> dict[str, object]:
    """The limits that are set, as plain values for logs and pages."""
    names = ("rpm", "tpm", "budget", "concurrency")
    found: dict[str, object] = {
        name: value for name in names if (value := getattr(level, name)) is not None
    }
    if level.budget is not None:
        found["period"] = level.period
    if level.models is not None:
        found["models"] = sorted(level.models)
    return found
