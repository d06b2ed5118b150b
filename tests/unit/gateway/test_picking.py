"""The next attempt goes to the least loaded endpoint that may be asked."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway import picking
from llmgw.gateway.breaker import Breaker, BreakerRules, Outcome, Permit

NOW = 100.0


@dataclass(eq=False)
class Engine:
    name: str = "e"
    inflight: int = 0
    weight: float = 1.0
    priority: int = 0
    is_ready: bool = True
    salt: int = 0
    breaker: Breaker = field(default_factory=lambda: Breaker(BreakerRules()))

    def __post_init__(self):
        self.salt = picking.salt(self.name)

    def fail(self, at):
        for _ in range(3):
            self.breaker.record(Outcome.FAILED, at, permit=Permit.ORDINARY)
        return self


def pick(owners, *, tried=(), key=b"req-1"):
    return picking.pick(owners, tried=tried, now=NOW, key=key)


def test_least_in_flight_is_chosen():
    idle = Engine("b", inflight=1)
    assert pick([Engine("a", inflight=2), idle, Engine("c", inflight=3)]) is idle


def test_nobody_is_chosen_of_nobody():
    assert pick([]) is None


def test_draining_endpoint_gets_nothing_new():
    assert pick([Engine(is_ready=False)]) is None


def test_tried_endpoint_is_not_chosen_again_in_its_round():
    first, second = Engine("a"), Engine("b", inflight=9)
    assert pick([first, second], tried=(first,)) is second
    assert pick([first, second], tried=(first, second)) is None


def test_endpoint_that_is_left_alone_is_passed_over():
    failing, other = Engine("a").fail(NOW), Engine("b", inflight=9)
    assert pick([failing, other]) is other
    assert pick([failing]) is None


def test_endpoint_whose_wait_is_over_may_be_chosen():
    assert pick([recovering := Engine("a").fail(NOW - 5)]) is recovering


def test_higher_priority_is_used_whatever_its_load():
    high = Engine("a", priority=1, inflight=50)
    assert pick([Engine("b"), high, Engine("c", priority=-1)]) is high
    assert pick([high, Engine("b")], tried=(high,)).name == "b"


def test_weights_of_two_to_one_share_thirty_requests_in_that_ratio():
    owners = [Engine("a", weight=2.0), Engine("b", weight=1.0)]
    for n in range(30):
        pick(owners, key=b"req-%d" % n).inflight += 1
    assert [one.inflight for one in owners] == [20, 10]


def test_equals_are_shared_evenly_among_keys():
    owners = [Engine(f"node{n}.0") for n in range(5)]
    chosen = Counter(pick(owners, key=b"req-%d" % n).name for n in range(5000))
    assert all(800 <= count <= 1200 for count in chosen.values()), chosen


def test_equals_are_chosen_alike_in_any_order():
    owners = [Engine(f"node{n}") for n in range(7)]
    for n in range(50):
        key = b"req-%d" % n
        assert pick(owners, key=key) is pick(owners[::-1], key=key)


@given(
    st.lists(
        st.builds(
            Engine,
            name=st.text(),
            inflight=st.integers(0, 3),
            weight=st.sampled_from([0.5, 1.0, 2.0]),
            priority=st.integers(0, 1),
            is_ready=st.booleans(),
        )
    )
)
def test_choice_is_never_beaten_by_another_that_was_possible(owners):
    chosen = pick(owners)
    possible = [one for one in owners if one.is_ready]
    assert (chosen is None) == (not possible)
    for other in possible:
        ours = (-chosen.priority, (chosen.inflight + 1) / chosen.weight)
        assert ours <= (-other.priority, (other.inflight + 1) / other.weight)


def test_last_resort_is_the_one_that_failed_longest_ago():
    owners = [Engine("a").fail(NOW - 1), Engine("b").fail(NOW - 3), Engine("c").fail(NOW - 2)]
    assert picking.pick_last_resort(owners, tried=()).name == "b"
    assert picking.pick_last_resort(owners, tried=(owners[1],)).name == "c"


def test_there_is_no_last_resort_while_any_owner_is_closed():
    healthy, failing = Engine("a"), Engine("b").fail(NOW)
    assert picking.pick_last_resort([healthy, failing], tried=(healthy,)) is None


def test_last_resort_is_nobody_while_a_probe_is_under_way():
    failing = Engine("a").fail(NOW)
    failing.breaker.take(NOW, is_forced=True)
    assert picking.pick_last_resort([failing], tried=()) is None
