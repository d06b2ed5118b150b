"""Which level of concurrency is tried next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.bench.ramp import Ramp


def tried(*, carries, first=1, most=256):
    """Every level that a ramp tries on an endpoint that carries so much, and what it found."""
    ramp, levels = Ramp(first=first, most=most), []
    while (level := ramp.next()) is not None:
        levels.append(level)
        ramp = ramp.after(level, is_good=level <= carries)
    return levels, ramp


def test_it_doubles_until_a_level_breaks_and_then_halves_the_gap():
    levels, ramp = tried(carries=11)
    assert levels == [1, 2, 4, 8, 16, 12, 10, 11]
    assert (ramp.good, ramp.bad) == (11, 12)


def test_it_ends_at_the_most_that_may_be_tried():
    levels, ramp = tried(carries=1000, most=100)
    assert levels == [1, 2, 4, 8, 16, 32, 64, 100]
    assert ramp.bad is None


def test_an_endpoint_that_carries_nothing_is_found_out_at_once():
    levels, ramp = tried(carries=0)
    assert levels == [1]
    assert ramp.good == 0


def test_below_a_first_level_that_breaks_it_looks_further_down():
    levels, ramp = tried(carries=3, first=16)
    assert levels[0] == 16
    assert ramp.good == 3


@pytest.mark.parametrize("later", [8, 9], ids=["the same", "above"])
def test_a_good_level_at_or_above_a_bad_one_changes_nothing(later):
    ramp = Ramp(first=1, most=256, good=4, bad=8)
    assert ramp.after(later, is_good=True) == ramp


@given(carries=st.integers(0, 300), first=st.integers(1, 40), most=st.integers(40, 300))
def test_what_it_finds_is_true_and_within_an_eighth(carries, first, most):
    levels, ramp = tried(carries=carries, first=first, most=most)
    assert len(levels) == len(set(levels)) <= 20
    assert ramp.good <= min(carries, most)
    assert all(first <= level <= most or level < first for level in levels)
    best = min(carries, most)
    assert best - ramp.good <= max(1, best // 8)
