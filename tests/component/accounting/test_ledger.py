"""Usage comes from journals to the store, each request once, whoever dies or stands still."""

from __future__ import annotations

import asyncio
import itertools
import os

import pytest
from sqlalchemy import event

from llmgw.accounting import journal_files
from llmgw.accounting.ledger import Ledger
from llmgw.accounting.usage_journal import UsageJournal
from llmgw.domain.usage_reports import Span
from llmgw.errors import Internal, Unreachable
from llmgw.kit.clock import SystemClock
from tests.fakes.usage import NOON, note, row
from tests.fakes.waiting import eventually

PATIENCE_S = 20.0


class RowsInMemory:
    """Fits ``ledger.Rows``: keeps each row once, and is away when it is told so."""

    def __init__(self):
        self.kept = {}
        self.batches = []
        self.error = None
        self.fails_after = None

    async def write(self, rows):
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        fresh = [one for one in rows if one.entry_id not in self.kept]
        self.kept |= {one.entry_id: one for one in fresh}
        self.batches.append(len(rows))
        return len(fresh)

    def outcomes(self):
        return {one.request_id: one.outcome for one in self.kept.values()}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def started(folder, tmp_path):
    """Makes journals, and closes them."""
    made = []

    def open_journal(**changed):
        given = {"slates": tmp_path / "run", "every_s": 0.01, **changed}
        journal = UsageJournal(folder, **given)
        journal.start()
        made.append(journal)
        return journal

    yield open_journal
    for journal in made:
        journal.close()


@pytest.fixture
async def ledgers(folder):
    """Makes ledgers that run, and ends them."""
    made = []

    def start(rows, **changed):
        given = {"clock": SystemClock(), "every_s": 0.01, **changed}
        ledger = Ledger(folder, rows=rows, **given)
        ledger.start()
        made.append(ledger)
        return ledger

    yield start
    for ledger in made:
        await ledger.close()


def serve(journal, *names, **changed):
    for name in names:
        journal.dispatched(note(name, **changed))
        journal.ended(row(name, **changed))


def kill(journal):
    """Let go of the lock as the kernel does when its process is killed; nothing else is tidied."""
    os.close(journal._lock)
    journal._lock = os.open(os.devnull, os.O_RDONLY)


async def test_what_ends_while_it_runs_is_kept_within_a_moment(started, ledgers):
    rows, journal = RowsInMemory(), started()
    ledgers(rows)
    serve(journal, "r1")
    await eventually(lambda: rows.outcomes() == {"r1": "finished"})
    serve(journal, "r2")
    await eventually(lambda: rows.outcomes() == {"r1": "finished", "r2": "finished"})
    assert len(rows.kept) == 2


async def test_rows_come_in_batches(started, ledgers):
    rows, journal = RowsInMemory(), started()
    serve(journal, *(f"r{number}" for number in range(1000)))
    ledger = ledgers(rows, batch_rows=100)
    assert await ledger.caught_up(within_s=PATIENCE_S)
    assert len(rows.kept) == 1000
    assert max(rows.batches) == 100
    assert len(rows.batches) < 30


async def test_it_catches_up_with_what_was_there_while_more_comes(started, ledgers):
    rows, journal = RowsInMemory(), started(every_s=0.001)
    ledger = ledgers(rows, every_s=0.002)
    serve(journal, *(f"early-{number}" for number in range(50)))

    async def go_on():
        for number in itertools.count():
            serve(journal, f"later-{number}")
            await asyncio.sleep(0)

    busy = asyncio.create_task(go_on())
    assert await ledger.caught_up(within_s=PATIENCE_S)
    assert not busy.done()
    assert sum(name.startswith("early") for name in rows.outcomes()) == 50
    busy.cancel()
    await asyncio.wait([busy])


async def test_a_store_that_is_away_holds_up_nobody_and_gets_all_of_it_later(started, ledgers):
    rows, journal = RowsInMemory(), started()
    rows.error = Unreachable("away")
    ledger = ledgers(rows, batch_rows=10)
    serve(journal, *(f"r{number}" for number in range(50)))
    await eventually(lambda: ledger.is_waiting_for_store)
    await eventually(lambda: figures(ledger)["llmgw_usage_behind_seconds"] > 0)
    serve(journal, *(f"r{number}" for number in range(50, 100)))
    assert journal.dropped_lines == 0
    rows.error = None
    assert await ledger.caught_up(within_s=PATIENCE_S)
    assert sorted(rows.outcomes()) == sorted(f"r{number}" for number in range(100))
    assert not ledger.is_waiting_for_store
    assert figures(ledger) == {
        "llmgw_usage_rows_total": 100,
        "llmgw_usage_lost_total": 0,
        "llmgw_usage_behind_seconds": 0,
    }


def figures(ledger):
    return {sample.name: sample.value for sample in ledger.figures()}


async def test_a_fault_of_our_own_with_one_journal_is_said_and_tried_again(started, ledgers):
    rows, journal = RowsInMemory(), started()
    rows.error = OverflowError("not foreseen")
    ledgers(rows)
    serve(journal, "r1")
    await asyncio.sleep(0.1)
    rows.error = Internal("still")
    await asyncio.sleep(0.1)
    rows.error = None
    await eventually(lambda: rows.outcomes() == {"r1": "finished"})
    assert len(rows.kept) == 1


async def test_requests_of_a_dead_worker_are_lost_and_its_journal_goes(folder, started, ledgers):
    told, rows, journal = [], RowsInMemory(), started(tag="row-3", every_s=60)
    ledgers(rows, on_finished=lambda tag, lost: told.append((tag, [x.request_id for x in lost])))
    serve(journal, "r1")
    journal.dispatched(note("r2"))
    kill(journal)
    await eventually(lambda: told)
    assert told == [("row-3", ["r2"])]
    assert rows.outcomes() == {"r1": "finished", "r2": "lost"}
    await eventually(lambda: not list(folder.iterdir()))
    assert not journal._slate.path.exists()


async def test_a_journal_that_ended_in_order_goes_and_loses_nothing(folder, started, ledgers):
    rows, journal = RowsInMemory(), started()
    serve(journal, "r1")
    journal.close()
    ledger = ledgers(rows)
    await eventually(lambda: not list(folder.iterdir()))
    assert rows.outcomes() == {"r1": "finished"}
    assert ledger.lost_rows == 0


async def test_the_next_server_goes_on_and_nothing_is_kept_twice(folder, started, ledgers):
    rows, journal = RowsInMemory(), started()
    journal.dispatched(note("long"))
    for round_number in range(4):
        serve(journal, *(f"r{round_number}-{number}" for number in range(30)))
        ledger = ledgers(rows, batch_rows=7)
        await eventually(lambda: len(rows.batches) > 2)
        rows.batches.clear()
        await ledger._tasks.close()  # killed wherever it was
    journal.ended(row("long"))
    ledger = ledgers(rows)
    assert await ledger.caught_up(within_s=PATIENCE_S)
    assert len(rows.kept) == 121
    assert set(rows.outcomes().values()) == {"finished"}


async def test_a_server_that_is_killed_after_each_step_keeps_each_row_once(started, ledgers):
    """The same, with a store that takes a batch and is not heard."""
    rows, journal = RowsInMemory(), started(file_bytes=2000)
    serve(journal, *(f"r{number}" for number in range(60)))
    while len(rows.kept) < 60:
        ledger = ledgers(rows, batch_rows=9)
        count = len(rows.batches)
        await eventually(lambda count=count: len(rows.batches) > count)
        await ledger._tasks.close()
    assert sorted(rows.outcomes()) == sorted(f"r{number}" for number in range(60))


async def test_several_workers_are_read_side_by_side(started, ledgers):
    rows, journals = RowsInMemory(), [started() for _ in range(3)]
    ledger = ledgers(rows, batch_rows=5)
    for number, journal in enumerate(journals):
        serve(journal, *(f"r{number}-{one}" for one in range(20)))
    assert await ledger.caught_up(within_s=PATIENCE_S)
    await eventually(lambda: len(rows.kept) == 60)


async def test_the_end_keeps_what_has_just_ended(started, ledgers):
    rows, journal = RowsInMemory(), started()
    ledger = ledgers(rows)
    serve(journal, "r1")
    journal.close()
    await ledger.close()
    assert rows.outcomes() == {"r1": "finished"}


async def test_the_end_does_not_wait_for_a_store_that_is_away(started, ledgers):
    rows, journal = RowsInMemory(), started()
    rows.error = Unreachable("away")
    ledger = ledgers(rows)
    serve(journal, "r1")
    await eventually(lambda: ledger.is_waiting_for_store)
    async with asyncio.timeout(2):
        await ledger.close()
    rows.error = None
    ledgers(rows)
    await eventually(lambda: rows.outcomes() == {"r1": "finished"})
    assert len(rows.kept) == 1


async def test_rows_of_dead_and_living_workers_reach_a_store_with_equal_sums(
    store, started, ledgers
):
    journals = [started() for _ in range(2)]
    ledger = ledgers(store.usage)
    for number, journal in enumerate(journals):
        serve(journal, *(f"r{number}-{one}" for one in range(40)))
        journal.dispatched(note(f"running-{number}"))
    kill(journals[0])
    assert await ledger.caught_up(within_s=PATIENCE_S)
    await eventually(lambda: ledger.lost_rows == 1)
    check = await store.usage_sums.check_day(NOON)
    assert check.agrees
    assert (check.rows.requests, check.rows.lost) == (81, 1)
    (total,) = await store.usage_sums.report("model", Span())
    assert total.amounts == check.rows


async def test_a_full_disk_of_the_database_is_waited_for_and_gets_all_of_it(
    opened, started, ledgers, tmp_path
):
    store = await opened(str(tmp_path / "store.db"))
    most_pages = [1]  # of a file that has more: it may not grow

    def bound(connection):
        connection.exec_driver_sql(f"PRAGMA max_page_count={most_pages[0]}")

    event.listen(store.database._engine.sync_engine, "begin", bound)
    journal = started()
    ledger = ledgers(store.usage)
    serve(journal, *(f"r{number}" for number in range(300)))
    await eventually(lambda: ledger.is_waiting_for_store)
    most_pages[0] = 10**9
    assert await ledger.caught_up(within_s=PATIENCE_S)
    check = await store.usage_sums.check_day(NOON)
    assert check.agrees
    assert check.rows.requests == 300


def test_a_folder_that_is_not_there_yet_has_no_journals(tmp_path):
    assert journal_files.all_in(tmp_path / "absent") == []
