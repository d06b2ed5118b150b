"""Who waits for room goes by band, then by what its project got, then by arrival."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.config.entering import AdmissionSettings
from llmgw.gateway.admission import Admission, Entry
from llmgw.gateway.attained import Attained
from llmgw.gateway.waiting_line import WaitingLine
from tests.fakes.choices import Engine, standing
from tests.fakes.clock import FakeClock


def nothing(_project):
    return 0.0


def line_of(*waiters):
    line = WaitingLine()
    for name, rank, project in waiters:
        line.add(name, rank=rank, project=project, now=0.0)
    return line


def test_least_served_project_goes_first_and_of_one_project_the_first_to_come():
    line = line_of(("a1", 0, "a"), ("a2", 0, "a"), ("b1", 0, "b"))
    assert line.next_of(0, {"a": 5.0, "b": 1.0}.__getitem__) == "b1"
    assert line.next_of(0, nothing) == "a1"


def test_oldest_of_every_band_and_youngest_of_one():
    line = line_of(("low", 2, "a"), ("high1", 0, "a"), ("high2", 0, "b"))
    assert line.oldest() == ["low", "high1"]
    assert line.youngest_of(0) == "high2"
    assert (line.ranks(), line.count_of(0)) == ([0, 2], 2)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.booleans()), max_size=40))
def test_line_holds_who_came_and_did_not_leave(events):
    line, kept = WaitingLine(), []
    for number, (rank, project, leaves) in enumerate(events):
        line.add(number, rank=rank, project=project, now=float(number))
        if leaves:
            assert line.remove(number) == number
        else:
            kept.append((rank, number))
    assert len(line) == len(kept)
    assert line.ranks() == sorted({rank for rank, _ in kept})
    while line:
        rank = line.ranks()[0]
        first = line.next_of(rank, nothing)
        assert (rank, first) == min(kept)
        kept.remove((rank, first))
        line.remove(first)


def test_service_fades_and_is_forgotten():
    attained = Attained()
    attained.charge("a", 100.0, 0.0)
    assert attained.of("a", 300.0) == pytest.approx(100 / 2.718, rel=0.01)
    for number in range(2000):
        attained.charge(str(number), 1.0, 10_000.0 * (number + 1))
    assert len(attained) < 1100


class Waiter:
    """Fits ``admission.Waiter`` and ``admission.Lease``; it notes what it is told."""

    def __init__(self, admission, engine, *, project="", told=None):
        self.model_name = "m"
        self.band = admission.bands.of({})
        self.project = project
        self.prompt_tokens = 10.0
        self.is_over = False
        self._engine = engine
        self._told = [] if told is None else told

    def pool(self):
        return [self._engine]

    def on_admitted(self):
        self._engine.inflight += 1
        self._told.append(self)

    def on_displaced(self):
        raise AssertionError("nobody is more urgent")


@pytest.fixture
def full():
    """An engine that is known to run 4, and has no room."""
    proven = standing(capacity=4, share=4, is_capacity_proven=True)
    return Engine(inflight=8, standing=proven)


async def test_room_for_one_lets_one_through(full):
    admission = Admission(AdmissionSettings(), now=FakeClock().monotonic)
    told = []
    waiters = [Waiter(admission, full, told=told) for _ in range(3)]
    assert {admission.ask(one, one.pool()) for one in waiters} == {Entry.WAITS}
    full.inflight -= 1
    admission.let_through()
    assert told == waiters[:1]
    admission.let_through()
    assert len(told) == 1
    for one in waiters[1:]:
        admission.leave(one)
    admission.close()


async def test_project_that_asks_for_ten_times_as_much_gets_no_more(full):
    """Two projects under contention: what they attain differs by less than a fifth."""
    clock = FakeClock()
    admission = Admission(AdmissionSettings(queue_max=1000), now=clock.monotonic)
    told, served = [], {"greedy": 0, "modest": 0}
    for number in range(220):
        project = "modest" if number % 11 == 10 else "greedy"
        waiter = Waiter(admission, full, project=project, told=told)
        assert admission.ask(waiter, waiter.pool()) is Entry.WAITS
    for _ in range(38):
        clock.advance(0.1)
        full.inflight -= 1
        admission.let_through()
        waiter = told.pop()
        served[waiter.project] += 1
        admission.release(waiter, project=waiter.project, output_tokens=50)
    assert sum(served.values()) == 38
    assert abs(served["greedy"] - served["modest"]) <= 0.2 * max(served.values())
    admission.close()


async def test_lease_that_was_not_given_back_is_swept_and_counted(full):
    admission = Admission(AdmissionSettings(), now=FakeClock().monotonic)
    lost, kept = Waiter(admission, full), Waiter(admission, full)
    admission.hold(lost)
    admission.hold(kept)
    admission.sweep()
    assert admission.stats().swept_leases == 0
    lost.is_over = True
    admission.sweep()
    assert (admission.stats().leases, admission.stats().swept_leases) == (1, 1)
