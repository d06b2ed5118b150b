"""Acts are kept in order, wait for a store that is away, and never grow without end."""

from __future__ import annotations

import asyncio

import pytest

from llmgw.config.settings import AuditSettings
from llmgw.domain.actors import Actor
from llmgw.domain.stored import AuditFilter
from llmgw.errors import Internal, NoStore, Unreachable
from llmgw.serve.audit_log import AuditLog
from tests.fakes.clock import FakeClock

ANN = Actor("ann", "cli", "req-1")


class FakeEntries:
    """Keeps entries, where it is there."""

    def __init__(self):
        self.kept = []
        self.pruned = []
        self.is_away = False
        self.refused = None

    async def append(self, entry):
        await asyncio.sleep(0)
        if self.is_away:
            raise Unreachable("the store does not answer")
        if entry.target == self.refused:
            raise Internal("the store cannot write this")
        self.kept.append(entry)

    async def page(self, wanted=None, *, limit=100):
        return self.kept[:limit]

    async def prune(self, *, before, keep=None):
        self.pruned.append((before, keep))
        return 0


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def entries():
    return FakeEntries()


@pytest.fixture
def log(entries, clock):
    return AuditLog(entries, settings=AuditSettings(retain_days=2, max_entries=500), clock=clock)


async def note(log, target):
    await log.note(ANN, action="node.drain", target=target, outcome="done", after={"reason": "x"})


async def test_an_act_is_kept_with_its_time_and_who_did_it(log, entries, clock):
    await note(log, "n1")
    (kept,) = entries.kept
    assert (kept.at, kept.actor, kept.origin, kept.request_id) == (
        clock.wall(),
        "ann",
        "cli",
        "req-1",
    )
    assert (kept.action, kept.target, kept.outcome) == ("node.drain", "n1", "done")


async def test_a_store_that_is_away_has_what_it_missed_in_order_afterwards(log, entries):
    entries.is_away = True
    await note(log, "n1")
    await note(log, "n2")
    entries.is_away = False
    await asyncio.gather(note(log, "n3"), note(log, "n4"))
    assert [one.target for one in entries.kept] == ["n1", "n2", "n3", "n4"]


async def test_what_an_act_tells_is_bounded_and_always_can_be_kept(log, entries):
    told = {"at": ANN, "nodes": ("n1", "n2")}
    await log.note(ANN, action="a.b", target="x" * 9000, outcome="done", before=told, after={})
    long = {"removed": ["x" * 100] * 100}
    await log.note(ANN, action="a.b", target="", outcome="done", after=long)
    first, second = entries.kept
    assert (first.before, first.after) == ({"at": str(ANN), "nodes": ["n1", "n2"]}, {})
    assert len(first.target) == 500
    assert second.after == {"left_out": "1 facts of 10413 characters"}


async def test_an_act_that_no_store_takes_holds_up_no_other(log, entries):
    entries.refused = "n1"
    for target in ("n1", "n2"):
        await note(log, target)
    assert [one.target for one in entries.kept] == ["n2"]
    assert log.dropped == 1


async def test_what_waits_is_bounded_and_what_is_dropped_is_counted(entries, clock):
    log = AuditLog(entries, settings=AuditSettings(), clock=clock, most_waiting=2)
    entries.is_away = True
    for number in range(5):
        await note(log, f"n{number}")
    entries.is_away = False
    await note(log, "last")
    assert [one.target for one in entries.kept] == ["n4", "last"]
    assert log.dropped == 4


async def test_the_log_is_pruned_by_age_and_number_once_an_hour(log, entries, clock):
    await note(log, "n1")
    await note(log, "n2")
    clock.advance(3601)
    await note(log, "n3")
    days = 2 * 86400
    assert entries.pruned == [(clock.wall() - 3601 - days, 500), (clock.wall() - days, 500)]


async def test_without_a_store_acts_cannot_be_read_and_that_is_said(clock):
    log = AuditLog(None, settings=AuditSettings(), clock=clock)
    await note(log, "n1")
    with pytest.raises(NoStore, match=r"set auth\.store"):
        await log.page(AuditFilter(), limit=1)
