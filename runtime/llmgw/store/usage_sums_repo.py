"""Usage told from its sums alone: reports, what budgets have spent, and whether all sums agree.

No report reads a row of a request, so that none takes longer the more requests there were; only
``check_day`` does, which is for that. Whose usage it is says the tree as it is now: a key that was
moved takes its usage along, and the figure is that of the limit beside it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    Select,
    Subquery,
    Table,
    and_,
    cast,
    func,
    literal,
    null,
    select,
    type_coerce,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.principals import Scope
from llmgw.domain.usage_reports import (
    DAY_S,
    Amounts,
    DayCheck,
    Grouping,
    Span,
    Spend,
    UsageSum,
)
from llmgw.store.database import Database
from llmgw.store.tables import (
    api_keys,
    limits,
    orgs,
    projects,
    teams,
    usage,
    usage_days,
    usage_hours,
    users,
)
from llmgw.store.usage_repo import SUMMED

MOST = 10_000
"""Groups of one report."""

_DAY_MS = DAY_S * 1000


class UsageSumsRepo:
    """The sums of one store."""

    def __init__(self, database: Database) -> None:
        """Usage of one store."""
        self._database = database

    async def report(
        self, by: Grouping, span: Span, *, key_id: str = "", limit: int = MOST
    ) -> Sequence[UsageSum]:
        """The sums of each group, the dearest first; of days, the newest first.

        ``key_id``: of this key alone.
        """
        query = _report(by, _parts(span, key_id=key_id)).limit(limit)

        async def work(connection: AsyncConnection) -> Sequence[Any]:
            return list(await connection.execute(query))

        return [_sum(row, by) for row in await self._database.read(work)]

    async def spent(self, *, since: float) -> Sequence[Spend]:
        """What each key has spent since the beginning of a day, with its place in the tree."""
        sums = _parts(Span(since=since // DAY_S * DAY_S), key_id="")
        tree = _in_tree(sums)
        micros = func.sum(sums.c.cost_micros)
        places = [sums.c.key_id, projects.c.project_id, teams.c.team_id, teams.c.org_id]
        query = select(*places, micros).select_from(tree).group_by(*places).order_by(*places)

        async def work(connection: AsyncConnection) -> Sequence[Any]:
            return list(await connection.execute(query))

        return [
            Spend(key, project or "", team or "", org or "", micros=int(spent))
            for key, project, team, org, spent in await self._database.read(work)
        ]

    async def spent_at(self, scope: Scope, scope_id: str, *, since: float) -> int:
        """What all keys below one place of the tree have spent since the beginning of a day."""
        key_id = scope_id if scope == "key" else ""
        sums = _parts(Span(since=since // DAY_S * DAY_S), key_id=key_id)
        tree, group_id, _ = _grouped(scope, sums)
        micros = cast(func.coalesce(func.sum(sums.c.cost_micros), 0), BigInteger)
        query = select(micros).select_from(tree).where(group_id == scope_id)

        async def work(connection: AsyncConnection) -> int:
            return int((await connection.execute(query)).scalar_one())

        return await self._database.read(work)

    async def check_day(self, day: float) -> DayCheck:
        """One day, summed in all three ways; reads each of its rows."""
        begin = day // DAY_S * DAY_S

        async def work(connection: AsyncConnection) -> DayCheck:
            found = []
            for columns, table in (
                (_of_rows(), usage),
                (_totals(usage_hours), usage_hours),
                (_totals(usage_days), usage_days),
            ):
                query = select(*columns).where(table.c.at >= begin, table.c.at < begin + DAY_S)
                found.append(_amounts((await connection.execute(query)).one()))
            return DayCheck(begin, *found)

        return await self._database.read(work)


def _parts(span: Span, *, key_id: str) -> Subquery:
    """The sums of a span: whole days, and the hours at both of its ends."""
    exact = span.in_hours()
    first_day = -(-exact.since // DAY_S) * DAY_S
    after_days = None if exact.until is None else exact.until // DAY_S * DAY_S
    if after_days is not None and after_days <= first_day:
        pieces = [(usage_hours, exact.since, exact.until)]
    else:
        pieces = [(usage_days, first_day, after_days)]
        if exact.since < first_day:
            pieces.append((usage_hours, exact.since, first_day))
        if after_days is not None and exact.until is not None and after_days < exact.until:
            pieces.append((usage_hours, after_days, exact.until))
    return union_all(
        *(_piece(table, since=a, until=b, key_id=key_id) for table, a, b in pieces)
    ).subquery("parts")


def _piece(table: Table, *, since: float, until: float | None, key_id: str) -> Select[Any]:
    at_ms = type_coerce(table.c.at, BigInteger)
    day = (at_ms - at_ms % literal(_DAY_MS, BigInteger)).label("day")
    names = (table.c[name] for name in ("key_id", "user_id", "project_id", "model", *SUMMED))
    piece = select(day, *names).where(table.c.at >= since)
    if until is not None:
        piece = piece.where(table.c.at < until)
    return piece.where(table.c.key_id == key_id) if key_id else piece


def _in_tree(sums: Subquery) -> FromClause:
    """With where each key hangs now; of one that is not known, where its request said."""
    project_id = func.coalesce(api_keys.c.project_id, sums.c.project_id)
    return (
        sums.outerjoin(api_keys, api_keys.c.key_id == sums.c.key_id)
        .outerjoin(projects, projects.c.project_id == project_id)
        .outerjoin(teams, teams.c.team_id == projects.c.team_id)
    )


def _report(by: Grouping, sums: Subquery) -> Select[Any]:
    tree, group_id, name = _grouped(by, sums)
    inner = select(group_id.label("group_id"), name.label("name"), *_columns(sums))
    found = inner.select_from(tree).subquery("found")
    budgets: list[ColumnElement[Any]] = [null().label("budget"), null().label("period")]
    source: FromClause = found
    if by in {"key", "team", "project", "org"}:
        source = found.outerjoin(
            limits, and_(limits.c.scope == by, limits.c.scope_id == found.c.group_id)
        )
        budgets = [func.max(limits.c.budget).label("budget"), func.max(limits.c.period)]
    totals = _totals(found)
    query = select(found.c.group_id, func.max(found.c.name), *totals, *budgets)
    grouped = query.select_from(source).group_by(found.c.group_id)
    if by == "day":
        return grouped.order_by(found.c.group_id.desc())
    return grouped.order_by(func.sum(found.c.cost_micros).desc(), found.c.group_id)


def _grouped(
    by: Grouping, sums: Subquery
) -> tuple[FromClause, ColumnElement[Any], ColumnElement[Any]]:
    """What is joined, what groups, and its name; only names of this table reach the database."""
    tree = _in_tree(sums)
    if by == "model":
        return sums, sums.c.model, literal("")
    if by == "day":
        return sums, sums.c.day, literal("")
    if by == "key":
        return tree, sums.c.key_id, api_keys.c.name
    if by == "user":
        user_id = func.coalesce(api_keys.c.user_id, sums.c.user_id)
        return tree.outerjoin(users, users.c.user_id == user_id), user_id, users.c.email
    if by == "project":
        project_id = func.coalesce(api_keys.c.project_id, sums.c.project_id)
        return tree, project_id, projects.c.name
    if by == "team":
        return tree, func.coalesce(teams.c.team_id, ""), teams.c.name
    joined = tree.outerjoin(orgs, orgs.c.org_id == teams.c.org_id)
    return joined, func.coalesce(orgs.c.org_id, ""), orgs.c.name


def _columns(sums: FromClause) -> list[ColumnElement[Any]]:
    return [sums.c[name] for name in SUMMED]


def _totals(sums: FromClause) -> list[ColumnElement[Any]]:
    """In the order of ``Amounts``; PostgreSQL would make decimals of sums."""
    return [cast(func.coalesce(func.sum(one), 0), BigInteger) for one in _columns(sums)]


def _of_rows() -> list[ColumnElement[Any]]:
    """The same sums, of rows; in the order of ``SUMMED``."""
    is_timed = usage.c.latency_ms.is_not(None)
    amounts: list[ColumnElement[Any]] = [
        func.count(),
        *(func.count().filter(usage.c.outcome == name) for name in ("failed", "aborted", "lost")),
        func.count().filter(usage.c.is_estimated),
        *(
            func.coalesce(func.sum(usage.c[name]), 0)
            for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_micros")
        ),
        func.coalesce(func.sum(usage.c.latency_ms), 0),
        func.count().filter(is_timed),
    ]
    return amounts


def _amounts(row: Sequence[Any]) -> Amounts:
    return Amounts(*(int(amount) for amount in row))


def _day(at_ms: int) -> str:
    moment = dt.datetime.fromtimestamp(at_ms / 1000, tz=dt.UTC)
    return moment.date().isoformat()


def _sum(row: Sequence[Any], by: Grouping) -> UsageSum:
    group_id, name, *amounts, budget, period = row
    return UsageSum(
        group_id=_day(group_id) if by == "day" else group_id or "",
        name=name or "",
        amounts=Amounts(*(int(amount) for amount in amounts)),
        budget=budget,
        period=period if budget is not None else None,
    )
