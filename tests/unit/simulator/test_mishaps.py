"""What goes wrong in a simulated fleet: the same for the same seed, as often as was asked."""

from __future__ import annotations

import itertools

import pytest

from llmgw.simulator import mishaps
from llmgw.simulator.mishaps import Kind, Rates

ALL = Rates(
    every_s={
        Kind.LOSS: 30.0,
        Kind.FLAP: 60.0,
        Kind.CRASH: 10.0,
        Kind.MASS: 120.0,
        Kind.DRAIN: 45.0,
    }
)


def first(count, rates=ALL, *, seed=7):
    return list(itertools.islice(mishaps.schedule(rates, seed=seed), count))


def test_one_seed_makes_one_schedule():
    assert first(200) == first(200)
    assert first(200) != first(200, seed=8)


def test_mishaps_come_in_their_order():
    times = [one.at_s for one in first(500)]
    assert times == sorted(times)
    assert times[0] > 0


@pytest.mark.parametrize("kind", Kind)
def test_each_kind_comes_as_often_as_was_asked(kind):
    hours = 100
    until = itertools.takewhile(lambda one: one.at_s < hours * 3600, mishaps.schedule(ALL, seed=1))
    count = sum(one.kind is kind for one in until)
    wanted = hours * 3600 / ALL.every_s[kind]
    assert abs(count - wanted) < 0.1 * wanted


def test_one_kind_does_not_move_when_another_is_added():
    crashes = [one for one in first(300) if one.kind is Kind.CRASH]
    alone = first(len(crashes), Rates(every_s={Kind.CRASH: 10.0}))
    assert alone == crashes


def test_who_is_struck_is_drawn_evenly():
    draws = [one.draw for one in first(2000)]
    assert all(0 <= draw < 1 for draw in draws)
    assert 0.45 < sum(draws) / len(draws) < 0.55


def test_nothing_befalls_a_fleet_that_asks_for_nothing():
    assert first(1, Rates()) == []
