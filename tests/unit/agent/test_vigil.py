"""When silence of an engine means that it hangs."""

from __future__ import annotations

import pytest

from llmgw.agent.supervisor.vigil import Silence


def judged(looks, *, timeout_s=10.0):
    """The times at which it counts as hung; a look is (time, cpu) or (time, None) for an answer."""
    silence, hung = Silence(timeout_s, longest_gap_s=5.0), []
    for at, cpu_s in looks:
        if cpu_s is None:
            silence.broken(now=at)
        elif silence.goes_on(now=at, cpu_s=cpu_s):
            hung.append(at)
    return hung


def every_two(until, cpu_s):
    return [(0, None), *((t, cpu_s(t)) for t in range(2, until, 2))]


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        (every_two(14, lambda t: 7.0), [12]),
        (every_two(12, lambda t: 7.0), []),
        (every_two(60, lambda t: t * 0.2), []),
        (every_two(14, lambda t: t * 0.05), [12]),
        ([*every_two(12, lambda t: 7.0), (12, None), (14, 7.0), (16, 7.0)], []),
        ([(0, None), (2, 7.0), (30, 7.0), (32, 7.0)], []),
        (every_two(14, lambda t: 7.0 - t), []),
        (every_two(26, lambda t: min(t, 8)), [22]),
    ],
    ids=[
        "hangs",
        "not-yet",
        "works",
        "hardly-works",
        "answers-again",
        "agent-stood-still",
        "a-process-ended",
        "worked-and-then-hung",
    ],
)
def test_an_engine_hangs_when_it_is_silent_and_does_no_work(looks, expected):
    assert judged(looks) == expected
