"""What prefix affinity does to a fleet whose caches are too small: hits, balance, waiting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes import cached_fleet
from tests.fakes.cached_fleet import Shape, play

SMALL_CACHES = Shape()
ONE_HOT_PREFIX = Shape(hot_share=0.95, requests_per_s=98.0)

SEEDS = pytest.mark.parametrize("seed", [1, 2, 3])


@SEEDS
def test_small_caches_are_hit_three_times_as_often_as_by_round_robin_and_load_stays_even(seed):
    shape = replace(SMALL_CACHES, seed=seed)
    scattered = play(cached_fleet.round_robin, shape)
    affine = play(cached_fleet.prefix_affinity, shape)
    assert scattered.hit_share < 0.3, "the caches are too small for the working set"
    assert affine.hit_share >= 3 * scattered.hit_share
    assert affine.load_variation < 0.3
    assert affine.ttft_p99_s <= scattered.ttft_p99_s
    assert sum(affine.following.values()) == shape.requests


@SEEDS
def test_one_hot_prefix_makes_no_request_wait_longer_than_least_load_does(seed):
    shape = replace(ONE_HOT_PREFIX, seed=seed)
    balanced = play(cached_fleet.least_load, shape)
    affine = play(cached_fleet.prefix_affinity, shape)
    assert affine.ttft_p99_s <= balanced.ttft_p99_s * 1.05
    assert affine.load_variation < 0.3


def test_hot_prefix_without_a_guard_would_collapse():
    """So the promise above says something about the guard."""
    balanced = play(cached_fleet.least_load, ONE_HOT_PREFIX)
    blind = play(cached_fleet.blind_affinity, ONE_HOT_PREFIX)
    assert blind.ttft_p99_s > 10 * balanced.ttft_p99_s
    assert blind.load_variation > 1


def test_everything_hot_waits_no_longer_than_by_least_load():
    shape = replace(ONE_HOT_PREFIX, hot_share=1.0)
    balanced = play(cached_fleet.least_load, shape)
    affine = play(cached_fleet.prefix_affinity, shape)
    assert affine.ttft_p99_s <= balanced.ttft_p99_s * 1.1
