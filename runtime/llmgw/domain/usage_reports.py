"""What is told of usage: sums by whose it is, what budgets have spent, and whether sums agree.

The store answers with these, the admin API and commands show them. Days and hours are those of UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from llmgw.domain.principals import Period

Grouping = Literal["key", "user", "team", "project", "org", "model", "day"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)

HOUR_S = 3600
DAY_S = 24 * HOUR_S


@dataclass(frozen=True, slots=True)
class Amounts:
    """Sums over requests."""

    requests: int = 0
    failed: int = 0
    aborted: int = 0
    lost: int = 0
    estimated: int = 0
    """Of how many the tokens are an estimate."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_micros: int = 0
    latency_ms: int = 0
    """The sum, over ``timed`` requests."""
    timed: int = 0


@dataclass(frozen=True, slots=True)
class UsageSum:
    """The sums of one key, person, team, project, organisation, model or day."""

    group_id: str
    """Empty: of requests that belong to none; a day as 2026-11-30."""
    name: str
    """Empty where it has none, or is not known any more."""
    amounts: Amounts
    budget: int | None = None
    """What this very level may spend, where it has a budget of its own."""
    period: Period | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when, in whole hours; ``until`` does not belong to it."""

    since: float = 0
    until: float | None = None

    def in_hours(self) -> Span:
        """The same with both ends at the beginning of an hour: sums are not kept finer."""
        until = None if self.until is None else self.until // HOUR_S * HOUR_S
        return Span(since=self.since // HOUR_S * HOUR_S, until=until)


@dataclass(frozen=True, slots=True)
class Spend:
    """What one key has spent, and where in the tree it hangs now."""

    key_id: str
    project_id: str
    team_id: str
    org_id: str
    micros: int


@dataclass(frozen=True, slots=True)
class DayCheck:
    """One day summed from its rows, its hours and its own sums, which must be the same."""

    day: float
    rows: Amounts
    hours: Amounts
    days: Amounts

    @property
    def agrees(self) -> bool:
        """Whether all three say the same."""
        return self.rows == self.hours == self.days
