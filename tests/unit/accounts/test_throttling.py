"""Guesses are bounded a bucket, and what remembers them is bounded too."""

from __future__ import annotations

import pytest

from llmgw.accounts.throttling import Throttle
from llmgw.errors import TooManyAttempts


@pytest.fixture
def throttle(clock):
    return Throttle(max_attempts=3, window_s=60.0, clock=clock, capacity=4)


def guess(throttle, bucket, times):
    for _ in range(times):
        throttle.attempt(bucket)


def is_refused(throttle, bucket):
    try:
        throttle.attempt(bucket)
    except TooManyAttempts:
        return True
    return False


def test_exactly_so_many_tries_are_allowed(throttle):
    guess(throttle, "ann", 3)
    assert is_refused(throttle, "ann")


def test_buckets_do_not_know_each_other(throttle):
    guess(throttle, "ann", 3)
    assert not is_refused(throttle, "bob")


def test_refused_tries_do_not_make_the_wait_longer(throttle, clock):
    guess(throttle, "ann", 3)
    clock.advance(59.0)
    assert is_refused(throttle, "ann")
    clock.advance(1.5)
    assert not is_refused(throttle, "ann")


def test_the_right_password_clears_the_window(throttle):
    guess(throttle, "ann", 2)
    throttle.clear("ann")
    guess(throttle, "ann", 3)
    assert is_refused(throttle, "ann")


def test_windows_that_are_over_make_room(throttle, clock):
    for name in "abcd":
        throttle.attempt(name)
    clock.advance(61.0)
    throttle.attempt("e")
    assert len(throttle) == 1


def test_filling_the_table_lets_nobody_back_in(throttle):
    guess(throttle, "ann", 3)
    for number in range(50):
        throttle.attempt(f"stranger{number}")
    assert len(throttle) == 4
    assert is_refused(throttle, "ann")


def test_a_table_full_of_shut_out_buckets_takes_nobody_new(throttle):
    for name in "abcd":
        guess(throttle, name, 3)
    with pytest.raises(TooManyAttempts):
        throttle.attempt("e")
    assert len(throttle) == 4
