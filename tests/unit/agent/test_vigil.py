"""When silence of an engine, or work of it that stands still, means that it hangs."""

from __future__ import annotations

import pytest

from llmgw.agent.supervisor.interviewing import Figures
from llmgw.agent.supervisor.vigil import Suspicion
from llmgw.domain.work import ShardWork

SILENT = Figures(answers=False)
LATE = Figures(answers=True, is_late=True)
MUTE = Figures(answers=True)


def says(requests, done=None):
    return Figures(answers=True, requests=requests, work_done=done)


def hung_at(looks, *, hang_timeout_s=10.0):
    """The first time at which it counts as hung; a look is (time, figures, cpu) or with a card."""
    suspicion = Suspicion(hang_timeout_s, longest_gap_s=5.0)
    for at, found, cpu_s, *card in looks:
        if suspicion.worry(found, now=at):
            done = ShardWork("s", cpu_time_s=cpu_s, gpu_utilization_percent=card[0] if card else 0)
            if suspicion.idle_s(done, now=at) >= hang_timeout_s:
                return at
    return None


def every_two(until, found, cpu_s, *card):
    return [(0, says(1, 5), 7.0), *((t, found, cpu_s(t), *card) for t in range(2, until, 2))]


def rests(t):
    return 7.0


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        (every_two(14, SILENT, rests), 12),
        (every_two(12, SILENT, rests), None),
        (every_two(60, SILENT, lambda t: t * 0.2), None),
        (every_two(14, SILENT, lambda t: t * 0.05), 12),
        (every_two(14, SILENT, lambda t: t * 0.05, 4), 12),
        (every_two(60, SILENT, rests, 5), None),
        (every_two(60, SILENT, lambda t: 60.0 - t), None),
        (every_two(26, SILENT, lambda t: min(t, 8)), 18),
        ([*every_two(12, SILENT, rests), (12, says(0), 7.0), (14, SILENT, 7.0)], None),
        ([(0, says(0), 7.0), (2, SILENT, 7.0), (30, SILENT, 7.0), (32, SILENT, 7.0)], None),
    ],
    ids=[
        "hangs",
        "not-yet",
        "works",
        "hardly-works",
        "a-card-that-idles",
        "a-card-that-works",
        "its-processes-end",
        "worked-and-then-hung",
        "answers-again",
        "agent-stood-still",
    ],
)
def test_an_engine_hangs_when_it_is_silent_and_does_no_work(looks, expected):
    assert hung_at(looks) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (says(2, 5), 12),
        (says(0, 5), None),
        (MUTE, None),
        (LATE, 12),
        (says(2), 14),
    ],
    ids=["has-work", "has-none", "publishes-nothing", "figures-do-not-come", "counts-no-work"],
)
def test_an_engine_that_answers_hangs_when_its_work_stands_still(found, expected):
    assert hung_at(every_two(40, found, rests)) == expected


def test_counters_that_move_are_work_without_any_processor_time():
    looks = [(t, says(1, t), 7.0) for t in range(0, 60, 2)]
    assert hung_at(looks) is None


def test_slow_work_of_a_busy_processor_is_left_alone_whatever_the_counters_say():
    assert hung_at(every_two(400, says(1, 5), lambda t: 0.9 * t)) is None


def test_a_card_that_cannot_be_read_is_neither_work_nor_rest():
    assert hung_at(every_two(40, SILENT, rests, None)) == 12
    assert hung_at(every_two(40, SILENT, lambda t: t, None)) is None
