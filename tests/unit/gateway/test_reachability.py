"""Why an endpoint cannot be reached is said, and not at every try."""

from __future__ import annotations

import pytest

from llmgw.gateway.reachability import Reachability


@pytest.fixture
def said(caplog):
    """What was logged so far, as words and reasons."""
    caplog.set_level("INFO", logger="llmgw")
    return lambda: [(one.message, one.keys.get("reason")) for one in caplog.records]


@pytest.fixture
def reachability():
    made = Reachability("e1")
    made.is_expected = True
    return made


def test_reason_is_said_once_and_a_new_one_again(said, reachability):
    for reason in ("refused", "refused", "no such name"):
        reachability.failed(reason)
    assert said() == [
        ("endpoint_unreachable", "refused"),
        ("endpoint_unreachable", "no such name"),
    ]


def test_engine_that_is_about_to_end_is_not_spoken_of(said, reachability):
    reachability.is_expected = False
    reachability.failed("refused")
    reachability.reached()
    assert said() == []
    reachability.is_expected = True
    reachability.failed("refused")
    assert said() == [("endpoint_unreachable", "refused")]


def test_end_of_it_is_said_and_a_sound_endpoint_is_not_spoken_of(said, reachability):
    reachability.reached()
    reachability.failed("refused")
    reachability.reached()
    reachability.reached()
    assert said() == [("endpoint_unreachable", "refused"), ("endpoint_reached", None)]
