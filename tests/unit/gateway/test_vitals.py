"""What is learned of an endpoint, scrape after scrape."""

from __future__ import annotations

import pytest

from llmgw.gateway import vitals
from llmgw.gateway.bulletin import Bulletin
from llmgw.gateway.metric_names import Reading


def reading(running=0.0, waiting=0.0, successes=0.0, progress=0.0):
    return Reading(running, waiting, successes=successes, progress=progress)


def after(*readings, every_s=2.0):
    """The vitals once these readings came, one each interval."""
    seen = vitals.begin(readings[0], at=0.0)
    for i, one in enumerate(readings[1:], 1):
        seen = vitals.fold(seen, one, at=i * every_s)
    return seen


def test_the_first_scrape_has_no_rate_and_the_second_sets_it():
    assert after(reading(successes=10)).drain is None
    assert after(reading(successes=10), reading(successes=20)).drain == 5.0


def test_a_rate_counts_three_tenths_of_the_new_one():
    series = [reading(successes=n) for n in (0, 20, 20, 40)]
    assert after(*series).drain == pytest.approx(0.3 * 10 + 0.7 * (0.3 * 0 + 0.7 * 10))


def test_a_counter_that_fell_is_another_process():
    before = [reading(running=9, waiting=3, successes=n) for n in (0, 50)]
    anew = after(*before, reading(running=1, successes=2))
    assert anew.drain is None
    assert anew.most_running == 1
    assert not anew.had_queue


def test_an_engine_that_counts_no_successes_has_no_rate():
    first, second = Reading(1, 0, progress=1), Reading(1, 0, progress=2)
    assert after(first, second).drain is None


def test_endpoint_runs_at_least_the_prior_until_requests_waited():
    def runs(*readings):
        seen = after(*readings)
        told = Bulletin(capacity=seen.most_running, is_proven=seen.had_queue)
        return told.runs(prior=8)

    assert runs(reading(running=2)) == 8
    assert runs(reading(running=30)) == 30
    assert runs(reading(running=4, waiting=1)) == 4
    assert runs(reading(running=4, waiting=1), reading(running=2)) == 4


def test_what_was_reached_an_hour_ago_falls_half_way_to_what_runs_now():
    readings = [reading(running=100), *[reading(running=10)] * 2]
    assert after(*readings[:2], every_s=3599.0).most_running == 100
    assert after(*readings[:2], every_s=3600.0).most_running == 55
    assert after(*readings, every_s=3600.0).most_running == 32.5


def test_work_moves_when_a_counter_does():
    series = [reading(progress=n) for n in (5, 6, 6, 6)]
    assert after(*series).moved_at == 2.0
