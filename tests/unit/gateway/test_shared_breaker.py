"""Several workers have one breaker an endpoint together."""

from __future__ import annotations

import pytest

from llmgw.gateway import board_layout
from llmgw.gateway.allotting import Allotment
from llmgw.gateway.board import LoadBoard
from llmgw.gateway.board_layout import Layout
from llmgw.gateway.breaker import Breaker, BreakerRules, Outcome, Permit
from llmgw.gateway.breaker_cells import BreakerCells
from llmgw.kit import mmapboard
from tests.fakes.clock import FakeClock

RULES = BreakerRules(failure_threshold=3, open_s=5.0, open_max_s=12.0)
_A = ("a", "http://127.0.0.1:1")


class Host:
    """Workers with a breaker each for the endpoint that has slot 0."""

    def __init__(self, folder, *, workers=2):
        self.now = FakeClock().monotonic
        self.path = board_layout.path(folder)
        self.words = mmapboard.created(self.path, count=Layout().words)
        self.words[board_layout.ROWS_IN_USE] = workers
        self.list(_A)
        self.breakers = [self.breaker(row) for row in range(workers)]

    def list(self, endpoint):
        key = board_layout.key_of(*endpoint)
        Allotment(self.words, Layout()).agree([key], now=0.0)
        self.words[Layout().slot_at(0) + board_layout.KEY] = key

    def breaker(self, row, endpoint=_A):
        seat = LoadBoard.attached(self.path, row=row, now=self.now).seat(*endpoint)
        breaker = Breaker(RULES, BreakerCells(seat))
        breaker.look(0.0)
        return breaker

    def kill(self, row):
        """What the server does once a worker has ended."""
        first = Layout().row_at(row)
        for word in range(first, first + Layout().row_words):
            self.words[word] = 0


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def fail(*breakers, now=0.0, permit=Permit.ORDINARY):
    for breaker in breakers:
        breaker.record(Outcome.FAILED, now, permit=permit)


def look(*breakers, now=0.0):
    for breaker in breakers:
        breaker.look(now)


def test_three_failures_open_it_for_all_whoever_saw_them(host):
    one, other = host.breakers
    fail(one, other)
    assert one.is_closed
    assert other.is_closed
    fail(one)
    look(other)
    assert not one.is_closed
    assert other.take(4.9) is Permit.REFUSED


def test_success_of_one_worker_ends_the_row_of_failures_of_another(host):
    one, other = host.breakers
    fail(one, one)
    look(other)
    assert not other.is_calm, "else its success would not be told"
    other.record(Outcome.OK, 0.0, permit=Permit.ORDINARY)
    fail(one, one)
    assert one.is_closed


def test_one_probe_goes_over_all_workers_and_its_success_closes_it_for_all(host):
    one, other = host.breakers
    fail(one, one, one)
    look(other)
    assert one.take(5.0) is Permit.PROBE
    assert other.may_pass(5.0), "nobody has looked yet"
    assert other.take(5.0) is Permit.REFUSED
    assert not other.may_pass(5.0)
    assert not other.may_be_forced()

    one.record(Outcome.OK, 6.0, permit=Permit.PROBE)
    look(other, now=6.0)
    assert other.is_closed
    assert other.is_calm


def test_a_failed_probe_lengthens_the_wait_of_all(host):
    one, other = host.breakers
    fail(one, one, one)
    look(other)
    assert other.take(5.0) is Permit.PROBE
    fail(other, now=5.0, permit=Permit.PROBE)
    look(one, now=5.0)
    assert one.opens_again_in_s(5.0) == 10.0


def test_a_cancelled_probe_gives_its_place_to_any_worker(host):
    one, other = host.breakers
    fail(one, one, one)
    look(other)
    assert one.take(5.0) is Permit.PROBE
    assert other.take(5.0) is Permit.REFUSED
    one.record(Outcome.NEUTRAL, 5.0, permit=Permit.PROBE)
    look(other, now=5.0)
    assert other.take(5.0) is Permit.PROBE


def test_the_probe_of_a_killed_worker_keeps_nobody_out(host):
    one, other = host.breakers
    fail(one, one, one)
    look(other)
    assert one.take(5.0) is Permit.PROBE
    assert other.take(5.0) is Permit.REFUSED
    host.kill(0)
    look(other, now=5.0)
    assert other.take(5.0) is Permit.PROBE


def test_a_probe_that_nobody_can_end_any_more_keeps_nobody_out_for_ever(host):
    one, other = host.breakers
    fail(one, one, one)
    look(other)
    assert one.take(5.0) is Permit.PROBE
    look(other, now=64.0)
    assert not other.may_pass(64.0)
    look(other, now=65.1)
    assert other.take(65.1) is Permit.PROBE


def test_a_breaker_outlives_the_worker_that_opened_it(host):
    one, other = host.breakers
    fail(one, one, one)
    look(other)
    host.kill(0)
    assert not host.breaker(0).is_closed


def test_what_was_said_of_an_endpoint_does_not_touch_the_next_one_in_its_slot(host):
    one, _ = host.breakers
    fail(one, one, one)
    other_endpoint = ("b", "http://127.0.0.1:2")
    host.list(other_endpoint)
    assert host.breaker(1, other_endpoint).is_closed


def test_a_change_that_is_half_written_is_not_taken_over(host):
    one, other = host.breakers
    fail(one, one, one)
    cell = Layout().cell_at(0, 0) + board_layout.BREAKER
    host.words[cell + 3] ^= 2
    look(other)
    assert other.is_closed
    host.words[cell + 3] ^= 2
    look(other)
    assert not other.is_closed


def test_nothing_is_written_while_all_goes_well(host):
    one, other = host.breakers
    before = bytes(host.words)
    for now in range(100):
        one.record(Outcome.OK, float(now), permit=Permit.ORDINARY)
        look(one, other, now=float(now))
    assert bytes(host.words) == before
