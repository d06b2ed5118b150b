"""When an endpoint hangs, and when it only takes its time."""

from __future__ import annotations

import pytest

from llmgw.gateway.progress import Signs, hang

WELL = {"heard_at": 99.0, "sent_at": 0.0, "moved_at": 99.0, "working_since": 50.0}


def verdict(**signs):
    return hang(Signs(**{**WELL, **signs}), now=100.0)


@pytest.mark.parametrize(
    "signs",
    [
        {},
        {"heard_at": 90.1},
        {"heard_at": 50.0, "sent_at": 95.0},
        {"heard_at": None},
        {"moved_at": 70.1},
        {"moved_at": 10.0, "sent_at": 71.0},
        {"moved_at": 10.0, "working_since": None},
        {"moved_at": 10.0, "working_since": 80.0},
        {"moved_at": None},
        {"moved_at": 10.0, "working_since": 40.0, "worked_at": 95.0, "looked_at": 96.0},
        {"moved_at": None, "working_since": 40.0, "worked_at": 95.0, "looked_at": 96.0},
        {"moved_at": 60.0, "worked_at": 61.0, "looked_at": 85.0},
        {"moved_at": None, "worked_at": 1.0, "looked_at": 39.0},
    ],
    ids=[
        "all is well",
        "silent for less than ten seconds",
        "it sends bytes and answers no probe",
        "it was not asked yet",
        "a counter moved half a minute ago",
        "counters stand and bytes come",
        "nothing is in flight",
        "its work began just now",
        "it has no counter that tells, as llama.cpp in a long prompt",
        "a long prompt: its counters stand and its agent sees it at work",
        "the same without a counter that tells",
        "its agent will look again before half a minute is over",
        "its agent has gone away and no counter tells",
    ],
)
def test_it_is_left_in_use(signs):
    assert verdict(**signs) is None


@pytest.mark.parametrize(
    ("signs", "said"),
    [
        ({"heard_at": 90.0}, "no answer to a probe and no byte for 10 s"),
        ({"moved_at": 70.0}, "no progress for 30 s with work in flight"),
        ({"moved_at": 1.0, "sent_at": 60.0}, "no progress for 40 s with work in flight"),
        ({"heard_at": 50.0, "moved_at": None}, "no answer to a probe and no byte for 50 s"),
        (
            {"moved_at": 60.0, "worked_at": 60.0, "looked_at": 98.0},
            "no progress for 38 s with work in flight",
        ),
        (
            {"moved_at": None, "worked_at": None, "looked_at": 98.0},
            "no progress for 48 s with work in flight",
        ),
        (
            {"moved_at": 60.0, "worked_at": 35.0, "looked_at": 36.0},
            "no progress for 40 s with work in flight",
        ),
        (
            {"heard_at": 80.0, "worked_at": 99.0, "looked_at": 99.0},
            "no answer to a probe and no byte for 20 s",
        ),
    ],
    ids=[
        "silence",
        "standstill",
        "standstill since its last byte",
        "silence without counters",
        "its agent finds it at rest too",
        "its agent alone finds it at rest",
        "its agent has gone away, so counters alone tell",
        "silence although it works",
    ],
)
def test_it_hangs(signs, said):
    hang = verdict(**signs)
    assert hang.reason == said
    assert hang.is_stalled is said.startswith("no progress")
