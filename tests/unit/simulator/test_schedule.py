"""The pace of one answer and the line in front of the slots."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.simulator.schedule import Pace, Slots


def test_no_token_is_made_before_the_first_is_due():
    pace = Pace(want=3, next_at=10.0, tpot_s=1.0)
    assert pace.advance(9.99) == 0
    assert pace.advance(10.0) == 1
    assert pace.advance(10.5) == 0


def test_a_late_tick_makes_every_token_that_was_due():
    pace = Pace(want=10, next_at=0.0, tpot_s=0.5)
    assert pace.advance(1.1) == 3
    assert not pace.is_done
    assert pace.advance(100.0) == 7
    assert pace.is_done


def test_without_a_pause_between_tokens_all_come_at_once():
    assert Pace(want=7, next_at=1.0, tpot_s=0.0).advance(1.0) == 7


def test_the_last_token_is_due_after_the_others():
    assert Pace(want=5, next_at=2.0, tpot_s=0.5).last_at == 4.0


def test_what_was_missed_during_a_pause_is_not_caught_up():
    pace = Pace(want=10, next_at=1.0, tpot_s=1.0)
    pace.resume(50.0)
    assert pace.advance(50.0) == 1
    assert pace.advance(51.0) == 1


@given(
    want=st.integers(1, 500),
    tpot_s=st.floats(0.0, 1.0),
    steps=st.lists(st.floats(0.0, 5.0), max_size=50),
)
def test_never_more_than_was_wanted_and_all_of_it_in_the_end(want, tpot_s, steps):
    pace, now = Pace(want=want, next_at=0.0, tpot_s=tpot_s), 0.0
    made = 0
    for step in steps:
        now += step
        made += pace.advance(now)
        assert made == pace.made <= want
    pace.advance(max(now, pace.last_at) + 1.0)
    assert pace.made == want


class _Runner:
    tokens_held = 0

    def __init__(self):
        self.n_begun = 0

    def begin(self):
        self.n_begun += 1

    def hold(self):
        """Nothing to hold."""

    def go_on(self):
        """Nothing to go on with."""

    def catch_up(self):
        """Nothing to count."""


def test_who_came_first_runs_first():
    slots, runners = Slots(parallel=1), [_Runner() for _ in range(3)]
    for runner in runners:
        slots.enter(runner)
    assert [r.n_begun for r in runners] == [1, 0, 0]
    assert (len(slots.running()), slots.n_waiting) == (1, 2)
    slots.leave(runners[0])
    assert [r.n_begun for r in runners] == [1, 1, 0]


def test_one_that_leaves_the_line_never_begins():
    slots, runners = Slots(parallel=1), [_Runner() for _ in range(3)]
    for runner in runners:
        slots.enter(runner)
    slots.leave(runners[1])
    slots.leave(runners[0])
    assert [r.n_begun for r in runners] == [1, 0, 1]


def test_leaving_twice_frees_one_slot_only():
    slots, runners = Slots(parallel=1), [_Runner() for _ in range(3)]
    for runner in runners:
        slots.enter(runner)
    slots.leave(runners[0])
    slots.leave(runners[0])
    assert (len(slots.running()), slots.n_waiting) == (1, 1)


@pytest.mark.parametrize(("waiting", "is_full"), [(1, False), (2, True)])
def test_the_line_has_an_end(waiting, is_full):
    slots = Slots(parallel=1, max_waiting=2)
    for _ in range(1 + waiting):
        slots.enter(_Runner())
    assert slots.is_full is is_full
