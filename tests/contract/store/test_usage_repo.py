"""Usage on each database: written once each, summed with it, told from sums alone."""

from __future__ import annotations

import asyncio
import re

import pytest
from sqlalchemy import event, inspect

from llmgw.domain.usage_reports import GROUPINGS, Amounts, Span
from llmgw.store import tables
from llmgw.store.usage_partitions import name_of
from tests.fakes.usage import DAY_S, MIDNIGHT, NOON, row

EVER = Span()


async def plant(store):
    """Two organisations, three teams, and a key of each of two people."""

    async def work(connection):
        for table, rows in (
            (tables.orgs, [("o1", "Acme"), ("o2", "Bolt")]),
            (tables.teams, [("t1", "o1", "blue"), ("t2", "o1", "red"), ("t3", "o2", "grey")]),
            (tables.projects, [("p1", "t1", "app"), ("p2", "t2", "web"), ("p3", "t3", "lab")]),
        ):
            names = [column.name for column in table.columns]
            values = [dict(zip(names, (*one, 1.0), strict=True)) for one in rows]
            await connection.execute(table.insert(), values)
        users = [
            {
                "user_id": name,
                "email": f"{name}@x.org",
                "name": name,
                "state": "active",
                "created_at": 1.0,
                "password_hash": "",
                "is_admin": False,
                "approved_by": "",
            }
            for name in ("ann", "bob")
        ]
        await connection.execute(tables.users.insert(), users)
        keys = [
            {
                "key_id": key,
                "key_hash": key,
                "prefix": "sk-",
                "name": f"key {key}",
                "project_id": project,
                "user_id": user,
                "created_at": 1.0,
                "created_by": "x",
            }
            for key, project, user in (("k1", "p1", "ann"), ("k2", "p2", "bob"), ("k3", "p3", None))
        ]
        await connection.execute(tables.api_keys.insert(), keys)
        budget = {"scope": "org", "scope_id": "o1", "budget": 9000, "period": "month"}
        await connection.execute(tables.limits.insert(), budget)

    await store.database.write(work)


async def told(store, by, span=EVER, **wanted):
    sums = await store.usage_sums.report(by, span, **wanted)
    return {one.group_id: one.amounts.cost_micros for one in sums}


async def test_a_row_is_kept_as_it_was_given(store):
    one = row(at=NOON + 0.125, user_id="ann", cached_tokens=3, is_estimated=True)
    bare = row(at=NOON + 1, ttft_ms=None, latency_ms=None, outcome="failed", status=502)
    assert await store.usage.write([bare, one]) == 2
    assert await store.usage.page(since=0) == [one, bare]


async def test_rows_of_a_time_come_in_order_page_by_page(store):
    rows = [row(at=NOON + number // 2) for number in range(9)]
    await store.usage.write(rows)
    seen, last = [], None
    while page := await store.usage.page(since=NOON, until=NOON + 4, after=last, limit=3):
        seen, last = [*seen, *page], page[-1]
    assert sorted(one.entry_id for one in seen) == sorted(one.entry_id for one in rows[:8])
    assert [one.at for one in seen] == sorted(one.at for one in seen)


async def test_a_row_that_comes_again_is_kept_and_summed_once(store):
    one, other = row(), row()
    assert await store.usage.write([one, one]) == 1
    assert await store.usage.write([one, other]) == 1
    assert await told(store, "key") == {"k1": one.cost_micros + other.cost_micros}
    assert len(await store.usage.page(since=0)) == 2


async def test_requests_that_share_a_clients_id_are_each_kept(store):
    """A client chooses the id of a request; it must not save money with that."""
    assert await store.usage.write([row("same"), row("same")]) == 2


async def test_writers_at_the_same_time_count_each_row_once(store):
    rows = [row(key=f"k{number % 7}", at=NOON + number) for number in range(60)]
    await asyncio.gather(*(store.usage.write(rows[n : n + 40]) for n in (0, 10, 20)))
    check = await store.usage_sums.check_day(NOON)
    assert check.agrees
    assert check.rows.requests == 60


async def test_a_request_at_the_last_moment_of_a_day_is_in_its_row_and_its_sums_on_one_day(store):
    """A store keeps whole milliseconds, and the next one may be another day's."""
    await store.usage.write([row(at=MIDNIGHT - 0.0004), row(at=MIDNIGHT - 0.0006)])
    for day in (MIDNIGHT - DAY_S, MIDNIGHT):
        check = await store.usage_sums.check_day(day)
        assert check.agrees
        assert check.rows.requests == 1


async def test_a_write_that_fails_leaves_neither_rows_nor_sums(store):
    with pytest.raises(Exception, match=r"too large|out of range|our own fault"):
        await store.usage.write([row(), row(prompt=2**70)])
    assert await store.usage.page(since=0) == []
    assert await told(store, "key") == {}


async def test_each_group_sums_what_is_below_it_in_the_tree(store):
    await plant(store)
    await store.usage.write([row(key="k1"), row(key="k1"), row(key="k2"), row(key="k3")])
    each = row().cost_micros
    assert await told(store, "key") == {"k1": 2 * each, "k2": each, "k3": each}
    assert await told(store, "user") == {"ann": 2 * each, "bob": each, "": each}
    assert await told(store, "project") == {"p1": 2 * each, "p2": each, "p3": each}
    assert await told(store, "team") == {"t1": 2 * each, "t2": each, "t3": each}
    assert await told(store, "org") == {"o1": 3 * each, "o2": each}
    assert await told(store, "model") == {"chat": 4 * each}
    assert await told(store, "day") == {"2025-11-30": 4 * each}


async def test_a_group_is_shown_with_its_name_and_with_a_budget_of_its_own_only(store):
    await plant(store)
    await store.usage.write([row(key="k1"), row(key="k2")])
    (org,) = await store.usage_sums.report("org", EVER)
    assert (org.name, org.budget, org.period) == ("Acme", 9000, "month")
    assert {one.budget for one in await store.usage_sums.report("team", EVER)} == {None}
    keys = await store.usage_sums.report("key", EVER)
    assert {one.name for one in keys} == {"key k1", "key k2"}
    people = await store.usage_sums.report("user", EVER)
    assert {one.name for one in people} == {"ann@x.org", "bob@x.org"}


async def test_usage_of_a_key_that_was_moved_goes_with_it(store):
    await plant(store)
    await store.usage.write([row(key="k1")])

    async def move(connection):
        await connection.execute(tables.api_keys.update().values(project_id="p3"))

    await store.database.write(move)
    assert list(await told(store, "org")) == ["o2"]
    (spent,) = await store.usage_sums.spent(since=0)
    assert (spent.project_id, spent.team_id, spent.org_id) == ("p3", "t3", "o2")


async def test_usage_of_a_session_counts_for_its_person_and_project(store):
    await plant(store)
    one = row(key="session:ann", user_id="ann", project_id="p2")
    await store.usage.write([one])
    assert list(await told(store, "user")) == ["ann"]
    (spent,) = await store.usage_sums.spent(since=0)
    assert (spent.project_id, spent.team_id, spent.org_id) == ("p2", "t2", "o1")
    assert spent.micros == one.cost_micros


async def test_all_that_is_counted_of_a_request_is_summed(store):
    await store.usage.write(
        [
            row(outcome="failed", latency_ms=None),
            row(outcome="aborted", cached_tokens=4, is_estimated=True),
            row(outcome="lost", latency_ms=60.4),
        ]
    )
    (found,) = await store.usage_sums.report("model", EVER)
    micros = 3 * row().cost_micros
    assert found.amounts == Amounts(3, 1, 1, 1, 1, 30, 15, 4, micros, 400, 2)
    assert (await store.usage_sums.check_day(NOON)).rows == found.amounts


HOURS = [MIDNIGHT + hour * 3600 + 1 for hour in range(-30, 40, 2)]


@pytest.mark.parametrize(
    ("since", "until"),
    [
        pytest.param(MIDNIGHT, None, id="from midnight"),
        pytest.param(MIDNIGHT, MIDNIGHT + DAY_S, id="a day"),
        pytest.param(NOON, None, id="from noon"),
        pytest.param(NOON + 1800, NOON + 7200, id="hours of a day"),
        pytest.param(NOON - DAY_S, NOON + DAY_S, id="over two midnights"),
        pytest.param(NOON, NOON + DAY_S / 2, id="up to midnight"),
        pytest.param(NOON - DAY_S / 3, NOON + DAY_S * 0.7, id="a day and parts"),
    ],
)
async def test_a_report_of_a_span_sums_its_hours_and_no_others(store, since, until):
    await store.usage.write([row(at=at) for at in HOURS])
    begin, end = since // 3600 * 3600, until // 3600 * 3600 if until else float("inf")
    expected = sum(begin <= at < end for at in HOURS)
    found = await store.usage_sums.report("model", Span(since, until))
    assert sum(one.amounts.requests for one in found) == expected > 0


async def test_a_report_of_one_key_has_only_its_usage(store):
    await store.usage.write([row(key="k1"), row(key="k2", model="big")])
    assert list(await told(store, "model", key_id="k2")) == ["big"]


async def test_the_dearest_come_first_and_no_more_than_are_wanted(store):
    await store.usage.write([row(key="a", prompt=1), row(key="b", prompt=9), row(key="c")])
    assert list(await told(store, "key", limit=2)) == ["c", "b"]


async def test_what_was_spent_since_a_day_is_summed_by_key(store):
    await store.usage.write([row(at=NOON - DAY_S), row(at=NOON), row(at=NOON + 1, key="k2")])
    each = row().cost_micros
    since = {one.key_id: one.micros for one in await store.usage_sums.spent(since=MIDNIGHT)}
    ever = {one.key_id: one.micros for one in await store.usage_sums.spent(since=0)}
    assert since == {"k1": each, "k2": each}
    assert ever == {"k1": 2 * each, "k2": each}


async def test_what_was_spent_below_a_place_is_summed_over_its_keys(store):
    await plant(store)
    await store.usage.write([row(key=key, at=NOON) for key in ("k1", "k1", "k2", "k3")])
    await store.usage.write([row(key="k1", at=NOON - DAY_S)])
    each = row().cost_micros
    for (scope, scope_id), spent in {
        ("key", "k1"): 2 * each,
        ("project", "p2"): each,
        ("team", "t1"): 2 * each,
        ("org", "o1"): 3 * each,
        ("org", "nobody"): 0,
    }.items():
        assert await store.usage_sums.spent_at(scope, scope_id, since=MIDNIGHT) == spent
    assert await store.usage_sums.spent_at("org", "o1", since=0) == 4 * each


async def test_old_days_go_and_their_sums_stay(store):
    await store.usage.write([row(at=NOON - n * DAY_S) for n in range(5)])
    assert await store.usage.prune(before=NOON - DAY_S) == 3
    assert len(await store.usage.page(since=0)) == 2
    assert sum((await told(store, "key")).values()) == 5 * row().cost_micros
    assert await store.usage.prune(before=NOON - DAY_S) == 0


async def test_a_row_of_a_day_that_was_dropped_finds_room_again(store):
    await store.usage.write([row(at=NOON - DAY_S)])
    await store.usage.prune(before=NOON)
    late = row(at=NOON - DAY_S + 5)
    assert await store.usage.write([late]) == 1
    assert await store.usage.page(since=0) == [late]


async def test_no_report_reads_rows_of_requests(store):
    await plant(store)
    await store.usage.write([row(key="k1"), row(key="k2")])
    asked = []

    def note(_connection, _cursor, statement, parameters, *_rest):
        asked.append((statement, parameters))

    engine = store.database._engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    for by in GROUPINGS:
        assert await told(store, by, Span(NOON - DAY_S, NOON + 2 * DAY_S))
    assert await store.usage_sums.spent(since=0)
    event.remove(engine, "before_cursor_execute", note)
    plans = [await plan(store, *one) for one in asked if "usage_" in one[0]]
    assert len(plans) == len(GROUPINGS) + 1
    assert all(re.search("usage_(days|hours)", plan) for plan in plans)
    assert [plan for plan in plans if re.search(r"\busage\b|usage_day_", plan)] == []


async def plan(store, statement, parameters):
    """How the database answers it."""
    word = "EXPLAIN QUERY PLAN" if store.database.is_sqlite else "EXPLAIN"

    async def work(connection):
        told = await connection.exec_driver_sql(f"{word} {statement}", parameters)
        return "\n".join(str(row[-1]) for row in told)

    return await store.database.read(work)


async def test_days_are_tables_of_their_own_where_the_database_can(store):
    await store.usage.write([row(at=NOON), row(at=NOON + DAY_S)])

    async def work(connection):
        return await connection.run_sync(lambda made: inspect(made).get_table_names())

    days = [name for name in await store.database.read(work) if "usage_day_" in name]
    assert sorted(days) == (
        [] if store.database.is_sqlite else [name_of(NOON), name_of(NOON + DAY_S)]
    )
