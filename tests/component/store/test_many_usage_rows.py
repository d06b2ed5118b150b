"""However many requests there were: reports take as long, days go at once, memory stays flat.

Two stores have the same keys, models and hours, so the same sums; one has far more requests.
"""

from __future__ import annotations

import itertools
import resource
import time

import pytest
from sqlalchemy import text

from llmgw.domain.usage_reports import GROUPINGS, Span
from llmgw.kit.clock import SystemClock
from llmgw.serve.usage_shown import UsageShown
from llmgw.store import usage_partitions
from tests.fakes import stores
from tests.fakes.usage import DAY_S, MIDNIGHT

KEYS, MODELS, HOURS = 10, 2, 24
FEWEST = KEYS * MODELS * HOURS
"""Requests of a day, so that each sum has one."""

ROWS = """
    INSERT INTO {day} SELECT
        'e' || {begin} || '-' || n, {begin} + n % {hours} * 3600000 + n % 3599999,
        'r' || n, 'k' || n / {hours} % {keys}, NULL, 'p1', 'm',
        'm' || n / {hours} / {keys} % {models},
        'e1', 'n1', 10, 5, NULL, 25, 1000, 3000, 'finished', false, 200, 12.5, 340
    FROM generate_series(0, {count} - 1) AS n
"""
SUMS = """
    INSERT INTO {table} SELECT at - at % {span}, key_id, '', project_id, served_model,
        count(*), 0, 0, 0, 0, sum(prompt_tokens), sum(completion_tokens), 0, sum(cost_micros),
        sum(latency_ms), count(*)
    FROM {day} GROUP BY 1, 2, 4, 5
"""


async def fill(store, *, days, a_day):
    """So many requests on each day, and their sums."""
    for number in range(days):
        day = MIDNIGHT + number * DAY_S
        name, begin = usage_partitions.name_of(day), round(day * 1000)

        async def work(connection, day=day, name=name, begin=begin):
            await usage_partitions.make(connection, days=[day])
            shape = {"hours": HOURS, "keys": KEYS, "models": MODELS}
            await connection.execute(text(ROWS.format(day=name, begin=begin, count=a_day, **shape)))
            for table, span in (("usage_hours", 3_600_000), ("usage_days", 86_400_000)):
                await connection.execute(text(SUMS.format(table=table, day=name, span=span)))

        await store.database.write(work)


async def took_s(store, by):
    """The shortest of a few: a busy machine makes it longer, never shorter."""
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        assert await store.usage_sums.report(by, Span(MIDNIGHT + 7200, MIDNIGHT + 3 * DAY_S + 7200))
        times.append(time.perf_counter() - begun)
    return min(times)


def rss_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def test_reports_do_not_grow_with_requests_and_old_days_go_at_once(postgres, opened):
    await check_scale(postgres, opened, days=4, a_day=50_000, timeout_s=60.0)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
async def test_reports_do_not_grow_with_twenty_million_requests(postgres, opened):
    await check_scale(postgres, opened, days=20, a_day=1_000_000, timeout_s=900.0)


async def check_scale(postgres, opened, *, days, a_day, timeout_s):
    small = await opened(stores.make_room(postgres), timeout_s=timeout_s)
    large = await opened(stores.make_room(postgres), timeout_s=timeout_s)
    await fill(small, days=days, a_day=FEWEST)
    await fill(large, days=days, a_day=a_day)
    for by in GROUPINGS:
        bound_s = 3 * await took_s(small, by) + 0.05
        assert await took_s(large, by) < bound_s, by
    found = await large.usage_sums.report("model", Span())
    assert sum(one.amounts.requests for one in found) == days * a_day
    assert (await large.usage_sums.check_day(MIDNIGHT)).agrees
    await stream_flat(large, most=min(days * a_day // 10, 200_000))
    begun = time.perf_counter()
    assert await large.usage.prune(before=MIDNIGHT + (days - 1) * DAY_S) == days - 1
    assert time.perf_counter() - begun < 2.0 * days  # a file each, however many rows
    assert len(await large.usage.page(since=0, until=MIDNIGHT + (days - 1) * DAY_S)) == 0


async def stream_flat(store, *, most):
    """Every request is written to somebody, and no more than a page is in memory."""
    shown = UsageShown(rows=store.usage, sums=store.usage_sums, clock=SystemClock())
    pages = await shown.rows(Span(MIDNIGHT))
    count, before = 0, None
    async for page in pages:
        count += len(page)
        if before is None and count >= most // 10:
            before = rss_bytes()
        if count >= most:
            break
    await pages.aclose()
    assert count >= most
    assert rss_bytes() - before < 16 * 1024 * 1024


def test_the_days_of_this_test_have_all_their_sums():
    hours = range(HOURS)
    made = {(n % HOURS, n // HOURS % KEYS, n // HOURS // KEYS % MODELS) for n in range(FEWEST)}
    assert made == set(itertools.product(hours, range(KEYS), range(MODELS)))
