"""An endpoint that fails is left alone, and asked again by one request at a time."""

from __future__ import annotations

import pytest

from llmgw.gateway.breaker import Breaker, BreakerRules, Outcome, Permit

RULES = BreakerRules(failure_threshold=3, open_s=5.0, open_max_s=12.0)


def tell(breaker, *outcomes, now=0.0, permit=Permit.ORDINARY):
    for outcome in outcomes:
        breaker.record(outcome, now, permit=permit)


def opened(now=0.0):
    breaker = Breaker(RULES)
    tell(breaker, *[Outcome.FAILED] * 3, now=now)
    return breaker


def test_three_failures_in_a_row_open_it():
    breaker = Breaker(RULES)
    tell(breaker, Outcome.FAILED, Outcome.FAILED)
    assert breaker.take(0.0) is Permit.ORDINARY
    tell(breaker, Outcome.FAILED)
    assert breaker.take(0.0) is Permit.REFUSED


def test_success_between_failures_keeps_it_closed():
    breaker = Breaker(RULES)
    tell(breaker, Outcome.FAILED, Outcome.FAILED, Outcome.OK, Outcome.FAILED, Outcome.FAILED)
    assert breaker.is_closed


def test_neutral_outcomes_count_for_nothing():
    breaker = Breaker(RULES)
    tell(breaker, Outcome.FAILED, Outcome.FAILED, *[Outcome.NEUTRAL] * 9)
    assert breaker.is_closed
    tell(breaker, Outcome.FAILED)
    assert not breaker.is_closed


def test_one_probe_goes_when_the_wait_is_over():
    breaker = opened()
    assert not breaker.may_pass(4.9)
    assert breaker.may_pass(5.0)
    assert breaker.take(5.0) is Permit.PROBE
    assert breaker.take(5.0) is Permit.REFUSED


def test_reading_takes_nothing():
    breaker = opened()
    for _ in range(9):
        assert breaker.may_pass(5.0)
    assert breaker.take(5.0) is Permit.PROBE


def test_success_of_the_probe_closes_it_and_forgets_the_past():
    breaker = opened()
    breaker.take(5.0)
    tell(breaker, Outcome.OK, now=6.0, permit=Permit.PROBE)
    assert breaker.is_closed
    assert breaker.is_calm
    tell(breaker, Outcome.FAILED, Outcome.FAILED, now=7.0)
    assert breaker.is_closed


@pytest.mark.parametrize(("failed_probes", "wait_s"), [(0, 5.0), (1, 10.0), (2, 12.0), (5, 12.0)])
def test_each_failed_probe_doubles_the_wait_up_to_its_bound(failed_probes, wait_s):
    breaker, now = opened(), 0.0
    for _ in range(failed_probes):
        now += breaker.opens_again_in_s(now)
        assert breaker.take(now) is Permit.PROBE
        tell(breaker, Outcome.FAILED, now=now, permit=Permit.PROBE)
    assert breaker.opens_again_in_s(now) == wait_s


def test_neutral_probe_gives_its_place_back():
    breaker = opened()
    breaker.take(5.0)
    tell(breaker, Outcome.NEUTRAL, now=5.0, permit=Permit.PROBE)
    assert breaker.take(5.0) is Permit.PROBE


def test_failures_of_attempts_from_before_lengthen_nothing():
    breaker = opened()
    tell(breaker, *[Outcome.FAILED] * 20, now=1.0)
    assert breaker.opens_again_in_s(1.0) == 4.0


def test_success_of_an_attempt_from_before_closes_it():
    breaker = opened()
    tell(breaker, Outcome.OK, now=1.0)
    assert breaker.is_closed


def test_forced_probe_goes_before_its_time_and_alone():
    breaker = opened()
    assert breaker.take(0.1, is_forced=True) is Permit.PROBE
    assert not breaker.may_be_forced()
    assert breaker.take(0.1, is_forced=True) is Permit.REFUSED


def test_calm_is_lost_by_one_failure_and_won_back_by_one_success():
    breaker = Breaker(RULES)
    assert breaker.is_calm
    tell(breaker, Outcome.FAILED)
    assert not breaker.is_calm
    tell(breaker, Outcome.OK)
    assert breaker.is_calm
