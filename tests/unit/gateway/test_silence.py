"""An answer that brings nothing is cut at its bounds, and slow work is not."""

from __future__ import annotations

import pytest

from llmgw.config.carrying import IdleByProfileSettings, StreamSettings
from llmgw.gateway.exchange import Cut
from llmgw.gateway.silence import Patience, Silence

PATIENCE = Patience(suspect_s=60.0, hard_s=900.0, hard_by_profile_s={"batch": 0.0, "chat": 120.0})


class Answer:
    """An answer that brings what a test says."""

    def __init__(self):
        self.events = 0
        self.mark = 0

    def bring(self):
        self.mark += 1
        self.events += 1

    def has_brought(self, *, mark, events):
        return mark != self.mark


def cut_at(*, brings=(), profile="", excused=(), stuck=range(100_000)):
    """When and why it is cut, looked at each second."""
    answer = Answer()
    silence = Silence(PATIENCE, profile=profile, begun_at=0.0)
    for now in range(2000):
        if now in brings:
            answer.bring()
        cut = silence.look(answer, now=float(now), is_excused=now in excused, is_stuck=now in stuck)
        if cut is not None:
            return now, cut
    return None


def test_frozen_engine_is_cut_at_the_suspect_time():
    assert cut_at() == (60, Cut.STUCK)


def test_slow_engine_that_makes_progress_goes_on_to_the_hard_bound():
    assert cut_at(stuck=()) == (900, Cut.SILENT)


def test_each_byte_starts_the_time_anew():
    assert cut_at(brings=range(0, 500, 50)) == (510, Cut.STUCK)


def test_engine_that_gets_stuck_late_is_cut_at_once():
    assert cut_at(stuck=range(300, 2000)) == (300, Cut.STUCK)


def test_client_that_takes_nothing_is_not_the_engine_s_fault():
    assert cut_at(excused=range(1000)) == (1059, Cut.STUCK)


@pytest.mark.parametrize(("profile", "expected"), [("chat", (120, Cut.SILENT)), ("batch", None)])
def test_each_routing_profile_may_have_its_own_bound(profile, expected):
    assert cut_at(stuck=(), profile=profile) == expected


def test_bounds_come_from_the_settings_and_the_default_profile_is_that_of_models_without():
    stream = StreamSettings(
        idle_suspect_s=20.0,
        idle_hard_s=100.0,
        idle_hard_by_profile=IdleByProfileSettings(batch=0.0, long_context=7.0),
    )
    patience = Patience.of(stream, default_profile="batch")
    assert [patience.hard_of(one) for one in ("chat", "batch", "long-context", "")] == [
        100.0,
        0.0,
        7.0,
        0.0,
    ]
    assert patience.look_every_s("long-context") == 7.0 / 4
    assert patience.look_every_s("batch") == 5.0
