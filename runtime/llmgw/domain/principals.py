"""Who sends a request, and what the tree above its key lets it do; pure.

The store builds a ``Principal`` for a key, the gateway keeps it for a while and asks it.
An organisation has teams, a team has projects, a project has keys; nothing is deeper.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Scope = Literal["org", "team", "project", "key"]
Period = Literal["day", "month", "lifetime"]

SCOPES: tuple[Scope, ...] = ("org", "team", "project", "key")
"""From the top of the tree to a key."""

PERIODS: tuple[Period, ...] = ("day", "month", "lifetime")


@dataclass(frozen=True, slots=True)
class Level:
    """The limits of one place in the tree, which all keys below it use up together.

    What is absent does not limit.
    """

    scope: Scope
    scope_id: str
    rpm: int | None = None
    """Requests in a minute."""
    tpm: int | None = None
    """Tokens in a minute."""
    budget: int | None = None
    """Micro-units that may be spent in ``period``; 0: nothing that costs something."""
    period: Period = "lifetime"
    concurrency: int | None = None
    """Requests at the same time."""
    models: frozenset[str] | None = None
    """Names and aliases as they were written; absent: all models, empty: none."""

    @property
    def counter(self) -> str:
        """What is counted under: ``org:o1``."""
        return f"{self.scope}:{self.scope_id}"

    @property
    def is_limiting(self) -> bool:
        """Whether any limit is set here."""
        values = (self.rpm, self.tpm, self.budget, self.concurrency, self.models)
        return any(value is not None for value in values)


@dataclass(frozen=True, slots=True)
class Principal:
    """The owner of one key, as the gateway meets it."""

    key_id: str
    name: str
    project_id: str
    team_id: str
    org_id: str
    user_id: str | None = None
    band: str | None = None
    """The band of its requests; absent: the usual one."""
    models: frozenset[str] | None = None
    """What all lists of its levels name; absent where no level has a list. ``may_use`` decides."""
    levels: tuple[Level, ...] = ()
    """All four, limiting or not, the organisation first and the key last."""
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class Tightest:
    """The smallest of one kind of limit in a chain of levels, and whose it is."""

    limit: int
    counter: str
    period: Period = "lifetime"
    """Of a budget."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A chain of levels as it is shown to a person; what is enforced are the levels themselves."""

    rpm: Tightest | None = None
    tpm: Tightest | None = None
    budget: Tightest | None = None
    concurrency: Tightest | None = None
    models: frozenset[str] | None = None


def may_use(principal: Principal, canonical: str, aliases: Iterable[str] = ()) -> bool:
    """Whether each list above the key names this model, by its name or by any of its aliases."""
    if principal.models is None:
        return True
    names = {canonical, *aliases}
    return all(
        level.models is None or not names.isdisjoint(level.models) for level in principal.levels
    )


def compose(levels: Sequence[Level]) -> Composed:
    """The smallest of each limit with its owner, and the models that every list names."""
    lists = [level.models for level in levels if level.models is not None]
    return Composed(
        rpm=_tightest((one.rpm, one) for one in levels),
        tpm=_tightest((one.tpm, one) for one in levels),
        budget=_tightest_budget(levels),
        concurrency=_tightest((one.concurrency, one) for one in levels),
        models=frozenset.intersection(*lists) if lists else None,
    )


def _tightest(found: Iterable[tuple[int | None, Level]]) -> Tightest | None:
    """Of equal ones the topmost, which is used up first."""
    tightest: Tightest | None = None
    for limit, level in found:
        if limit is not None and (tightest is None or limit < tightest.limit):
            tightest = Tightest(limit, counter=level.counter)
    return tightest


def _tightest_budget(levels: Sequence[Level]) -> Tightest | None:
    found = _tightest((one.budget, one) for one in levels)
    period = next((one.period for one in levels if found and one.counter == found.counter), None)
    return replace(found, period=period) if found and period else None
