"""Usage as the admin API is asked for it and shows it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from llmgw.api.schemas.from_view import FromView
from llmgw.domain.principals import Period
from llmgw.domain.usage_reports import Grouping

MOST = 10_000
_LATEST = 4102444800.0
"""The year 2100; beyond it a store has no days."""


class SpanIn(BaseModel):
    """Of which time usage is asked for, in whole hours."""

    model_config = ConfigDict(extra="forbid")

    since: float = Field(default=0, ge=0, le=_LATEST, description="Seconds since 1970.")
    until: float | None = Field(
        default=None, ge=0, le=_LATEST, description="Seconds since 1970; not included."
    )


class UsageIn(SpanIn):
    """Which sums are asked for."""

    by: Grouping = Field(default="key", description="Whose requests are summed up.")
    key: str = Field(default="", description="Only what this key used.")
    limit: int = Field(default=1000, ge=1, le=MOST)


class AmountsOut(FromView):
    """Sums over requests."""

    requests: int
    failed: int
    aborted: int = Field(description="Left by their clients.")
    lost: int = Field(description="Ended with their worker.")
    estimated: int = Field(description="Of how many the tokens are an estimate.")
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost_micros: int
    latency_ms: int = Field(description="The sum, over `timed` requests.")
    timed: int


class UsageSumOut(FromView):
    """The sums of one group."""

    group_id: str = Field(description="Empty: of requests that belong to none.")
    name: str
    amounts: AmountsOut
    budget: int | None = Field(description="Micro-units, where this very level has a budget.")
    period: Period | None


class UsageOut(FromView):
    """A report, the dearest first; of days, the newest first."""

    by: Grouping
    since: float
    until: float | None
    groups: tuple[UsageSumOut, ...]


class CheckIn(BaseModel):
    """How many days back sums are checked."""

    model_config = ConfigDict(extra="forbid")

    days: int = Field(default=7, ge=1, le=400)


class DayCheckOut(FromView):
    """One day, summed in three ways."""

    day: float = Field(description="Its first second, since 1970.")
    agrees: bool
    rows: AmountsOut
    hours: AmountsOut
    days: AmountsOut


class ChecksOut(FromView):
    """The days, the newest first."""

    agree: bool
    checks: tuple[DayCheckOut, ...]
