"""One limit taken from by several workers at once, through the board that they share."""

from __future__ import annotations

import multiprocessing

import pytest

from llmgw.accounting.gate import Gate
from llmgw.accounting.host_limits import HostLimits, Spending
from llmgw.accounting.limit_board import SILENT_AFTER_S, LimitBoard
from llmgw.domain.pricing import Price
from llmgw.errors import LimitReached
from tests.fakes.clock import FakeClock
from tests.fakes.principals import principal

PRICED = Price(1000, 1000)
WORKERS = 4
EACH = 125


class Host:
    """A server's board, and workers in this process, each with a row."""

    def __init__(self, run_dir, clock):
        self.run_dir = run_dir
        self.clock = clock
        self.limits = HostLimits.opened(run_dir, now=clock.wall())
        self.boards = []

    def slots(self, who, *, spent=0):
        spending = Spending(spent, spent, spent)
        names = [level.counter for level in who.levels]
        return {name: self.limits.allot(name, spending, now=self.clock.wall()) for name in names}

    def worker(self, row, who, *, spent=0):
        self.limits.seat(row)
        board = LimitBoard.attached(self.limits.path, row=row)
        board.learn(self.slots(who, spent=spent))
        self.boards.append(board)
        gate = Gate(board, price_of=lambda _: PRICED, now=self.clock.wall)
        gate.look()
        return gate

    def close(self):
        for board in self.boards:
            board.close()


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path, FakeClock())
    yield host
    host.close()


def taken(gate, who, *, times, prompt=0):
    count = 0
    for _ in range(times):
        try:
            gate.reserve(who, "m", prompt_tokens=prompt, completion_tokens=int)
        except LimitReached:
            continue
        count += 1
    return count


def test_workers_share_one_limit(host):
    who = principal(team_limits={"rpm": 5, "concurrency": 100})
    first, second = host.worker(1, who), host.worker(2, who)
    assert taken(first, who, times=3) == 3
    assert taken(second, who, times=9) == 2
    assert taken(first, who, times=9) == 0


def test_worker_that_comes_later_is_seen_by_the_others_at_once(host):
    who = principal(key_limits={"concurrency": 4})
    first = host.worker(1, who)
    assert taken(first, who, times=2) == 2
    second = host.worker(2, who)
    assert taken(second, who, times=1) == 1
    assert taken(first, who, times=9) == 1


def test_what_was_spent_before_counts(host):
    who = principal(team_limits={"budget": 4000})
    gate = host.worker(1, who, spent=4000)
    assert taken(gate, who, times=1) == 0


@pytest.mark.parametrize("period", ["day", "month", "lifetime"])
def test_budget_of_a_dead_worker_stays_spent(host, period):
    who = principal(org_limits={"budget": 1000, "period": period})
    dead = host.worker(1, who)
    dead.settle(
        dead.reserve(who, "m", prompt_tokens=10, completion_tokens=int),
        prompt_tokens=600,
        completion_tokens=0,
    )
    host.limits.leave(1, tag="w1", now=host.clock.wall())
    host.limits.settle("w1", {}, now=host.clock.wall())
    next_one = host.worker(1, who)
    next_one.settle(
        next_one.reserve(who, "m", prompt_tokens=10, completion_tokens=int),
        prompt_tokens=400,
        completion_tokens=0,
    )
    assert taken(next_one, who, times=1) == 0


def test_what_a_dead_worker_held_is_held_until_its_journal_tells_what_was_lost(host):
    who = principal(key_limits={"budget": 1000, "concurrency": 1, "rpm": 50})
    dead, other = host.worker(1, who), host.worker(2, who)
    assert taken(dead, who, times=1, prompt=1000) == 1
    host.limits.leave(1, tag="w1", now=host.clock.wall())
    assert taken(other, who, times=1) == 0, "its money is still held"
    host.limits.settle("w1", {"key:k1": 400}, now=host.clock.wall())
    assert taken(other, who, times=2, prompt=600) == 1, "and its place was free at once"
    assert taken(other, who, times=1) == 0


def test_rates_of_a_dead_worker_are_remembered_for_their_minute(host):
    who = principal(key_limits={"rpm": 3})
    dead, other = host.worker(1, who), host.worker(2, who)
    assert taken(dead, who, times=2) == 2
    host.limits.leave(1, tag="w1", now=host.clock.wall())
    assert taken(other, who, times=9) == 1
    host.clock.advance(120)
    assert taken(other, who, times=9) == 3


def test_places_of_a_worker_that_says_nothing_are_free_again(host):
    who = principal(key_limits={"concurrency": 1})
    silent, other = host.worker(1, who), host.worker(2, who)
    assert taken(silent, who, times=1) == 1
    host.clock.advance(SILENT_AFTER_S + 1)
    other.look()
    assert taken(other, who, times=2) == 1


def test_server_that_comes_back_goes_on_with_what_its_workers_counted(host):
    who = principal(key_limits={"budget": 1000})
    living, dead = host.worker(1, who), host.worker(2, who)
    for gate in (living, dead):
        hold = gate.reserve(who, "m", prompt_tokens=0, completion_tokens=int)
        gate.settle(hold, prompt_tokens=400, completion_tokens=0)
    host.limits = HostLimits.opened(host.run_dir, rows=[1], now=host.clock.wall())
    assert host.limits.slot_of("key:k1") is not None
    hold = living.reserve(who, "m", prompt_tokens=0, completion_tokens=int)
    living.settle(hold, prompt_tokens=200, completion_tokens=0)
    assert taken(living, who, times=1) == 0


def test_counter_without_a_slot_still_limits_each_worker(host):
    who = principal(key_limits={"rpm": 2})
    board = LimitBoard.attached(host.limits.path, row=1)
    host.boards.append(board)
    gate = Gate(board, price_of=lambda _: PRICED, now=host.clock.wall)
    assert taken(gate, who, times=9) == 2


def test_of_five_hundred_callers_in_four_processes_exactly_a_hundred_pass(host):
    who = principal(org_limits={"rpm": 100, "concurrency": 10**6}, key_limits={"budget": 10**9})
    slots = host.slots(who)
    for row in range(1, WORKERS + 1):
        host.limits.seat(row)
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(WORKERS), context.Queue()
    path = host.limits.path
    workers = [
        context.Process(target=_worker, args=(path, row, slots, start, results))
        for row in range(1, WORKERS + 1)
    ]
    for worker in workers:
        worker.start()
    passed = sum(results.get(timeout=20) for _ in workers)
    for worker in workers:
        worker.join(20)
    assert passed == 100


def _worker(path, row, slots, start, results):
    who = principal(org_limits={"rpm": 100, "concurrency": 10**6}, key_limits={"budget": 10**9})
    board = LimitBoard.attached(path, row=row)
    board.learn(slots)
    gate = Gate(board, price_of=lambda _: PRICED, now=FakeClock().wall)
    gate.look()
    start.wait(20)
    results.put(taken(gate, who, times=EACH))
