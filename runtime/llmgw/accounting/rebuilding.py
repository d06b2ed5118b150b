"""What each place of the tree has spent, as the store tells: counters go on from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from llmgw.accounting.host_limits import Spending
from llmgw.domain import limits
from llmgw.domain.principals import PERIODS, Period
from llmgw.domain.usage_reports import Spend

NOTHING: Final = Spending()


class Sums(Protocol):
    """The sums of usage; ``store.usage_sums_repo.UsageSumsRepo`` fits."""

    async def spent(self, *, since: float) -> Sequence[Spend]:
        """What each key has spent since the begin of a day, with its place in the tree."""
        ...


async def spendings(sums: Sums, *, now: float) -> Mapping[str, Spending]:
    """By counter; one that is absent has spent nothing."""
    micros: dict[str, dict[Period, int]] = {}
    for period in PERIODS:
        for spend in await sums.spent(since=limits.period_start(period, now)):
            for counter in counters_of(spend):
                known = micros.setdefault(counter, dict.fromkeys(PERIODS, 0))
                known[period] += spend.micros
    return {
        counter: Spending(day=by["day"], month=by["month"], total=by["lifetime"])
        for counter, by in micros.items()
    }


def counters_of(spend: Spend) -> Sequence[str]:
    """Under which counters a key's spending is counted."""
    named = (
        ("org", spend.org_id),
        ("team", spend.team_id),
        ("project", spend.project_id),
        ("key", spend.key_id),
    )
    return [f"{scope}:{scope_id}" for scope, scope_id in named if scope_id]
