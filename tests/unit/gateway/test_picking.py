"""The next attempt goes to the cheapest endpoint that may be asked."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway import costs, picking
from llmgw.gateway.breaker import Permit
from llmgw.gateway.costs import WEIGHTS, Standing
from llmgw.gateway.scores import Wish
from tests.fakes.choices import Engine, standing

NOW = 100.0


def pick(owners, *, tried=(), key=b"req-1", profile="chat", tokens=0):
    wish = Wish(key, weights=WEIGHTS[profile])
    wish.prompt_tokens = tokens
    picked = picking.pick(owners, tried=tried, now=NOW, wish=wish)
    return picked and picked.choice


def last_resort(owners, *, tried=(), tokens=0):
    wish = Wish(b"req-1")
    wish.prompt_tokens = tokens
    return picking.pick_last_resort(owners, tried=tried, wish=wish)


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


def test_higher_priority_is_used_while_it_has_room():
    high = Engine("a", priority=1, inflight=9)
    assert pick([Engine("b"), high, Engine("c", priority=-1)]) is high
    assert pick([high, Engine("b")], tried=(high,)).name == "b"


def test_next_priority_is_used_once_all_of_the_higher_one_is_full():
    full = Engine("a", priority=1, inflight=12)
    room, low = Engine("b", priority=1, inflight=11), Engine("c")
    assert pick([full, room, low]) is room
    assert pick([full, low]) is low


def test_higher_priority_is_used_where_every_priority_is_full():
    high, low = Engine("a", priority=1, inflight=90), Engine("b", inflight=50)
    assert pick([high, low]) is high


def test_weights_of_two_to_one_share_thirty_requests_in_that_ratio():
    owners = [Engine("a", weight=2.0), Engine("b", weight=1.0)]
    for n in range(30):
        pick(owners, key=b"req-%d" % n).inflight += 1
    assert owners[0].inflight == pytest.approx(20, abs=2)


def test_burst_between_two_scrapes_is_spread():
    owners = [Engine(f"e{n}") for n in range(4)]
    for n in range(100):
        one = pick(owners, key=b"req-%d" % n)
        one.reserved += 1
        one.inflight += 1
    assert max(one.inflight for one in owners) <= 30


def test_requests_of_other_gateways_count_as_load():
    busy = Engine("a", standing=standing(seen=6.0))
    assert pick([busy, Engine("b", inflight=3)]).name == "b"


def test_reservations_count_on_top_of_what_was_seen():
    reserved = Engine("a", standing=standing(seen=3.0), reserved=3)
    assert pick([reserved, Engine("b", standing=standing(seen=5.0))]).name == "b"


def test_waiting_requests_make_an_endpoint_dearer():
    queued = Engine("a", standing=standing(seen=6.0, waiting=2.0))
    assert pick([queued, Engine("b", standing=standing(seen=6.0))]).name == "b"


def test_full_cache_makes_an_endpoint_dearer_most_of_all_for_long_contexts():
    full, busy = Engine("a", standing=standing(kv=0.6)), Engine("b", inflight=7)
    empty = Engine("c", standing=standing(kv=0.1))
    assert pick([full, empty]) is empty
    assert pick([full, busy], profile="batch") is full
    assert pick([full, busy], profile="long-context") is busy


def test_slower_engine_gets_less_at_the_same_queue():
    slow = Engine("a", standing=standing(seen=12.0, waiting=4.0, drain=0.2))
    fast = Engine("b", standing=standing(seen=12.0, waiting=4.0, drain=4.0))
    assert pick([slow, fast]) is fast


def test_engine_that_tells_no_drain_rate_is_not_taken_for_the_slowest():
    silent = Engine("a", standing=standing(seen=12.0, waiting=4.0))
    slow = Engine("b", standing=standing(seen=12.0, waiting=4.0, drain=0.2))
    assert pick([slow, silent]) is silent


def test_healthy_engine_at_its_capacity_has_no_queue_after_a_burst_that_it_can_hold():
    engine = Engine("a", standing=standing(seen=2.0, capacity=32.0), reserved=30)
    assert engine.standing.queue_at(engine.load()) == 0
    assert engine.standing.queue_at(33) == 1


def test_stale_endpoint_is_chosen_if_alone_and_loses_to_a_fresh_equal():
    stale, fresh = Engine("a", standing=Standing()), Engine("b", inflight=5)
    assert pick([stale]) is stale
    assert pick([stale, fresh]) is fresh


def test_stale_endpoints_among_themselves_go_by_what_is_in_flight():
    busy, idle = Engine("a", standing=Standing(), inflight=3), Engine("b", standing=Standing())
    assert pick([busy, idle]) is idle


def test_external_endpoint_is_never_full_and_dearer_than_an_engine_of_ours():
    outside = Engine("a", standing=standing(is_external=True))
    assert outside.standing.saturation_at(500) == 0
    assert pick([outside, Engine("b", inflight=5)]).name == "b"
    assert pick([outside, Engine("b", inflight=80)]) is outside


def test_endpoint_just_off_its_wait_is_avoided_and_a_wait_later_is_like_others():
    fresh, other = Engine("a").fail(NOW - 5), Engine("b", inflight=9)
    assert pick([fresh, other]) is other
    settled = Engine("a").fail(NOW - 10)
    assert pick([settled, other]) is settled


def test_prompt_too_long_for_an_endpoint_goes_to_one_that_holds_it():
    small = Engine("a", context_length=1000)
    large = Engine("b", context_length=8000, inflight=9)
    unknown = Engine("c", inflight=20)
    assert pick([small, large], tokens=1100) is small
    assert pick([small, large], tokens=1101) is large
    assert pick([small, unknown], tokens=9999) is unknown
    assert pick([small, large], tokens=9000) is None


def test_debug_profile_gives_the_same_answer_to_every_request():
    owners = [Engine(f"node{n:02}") for n in range(40)]
    chosen = {pick(owners, key=b"req-%d" % n, profile="debug").name for n in range(1000)}
    assert chosen == {"node00"}


def test_of_many_endpoints_a_loaded_one_is_still_passed_over():
    owners = [Engine(f"node{n}", inflight=7 * (n % 4 > 0)) for n in range(64)]
    assert all(pick(owners, key=b"req-%d" % n).inflight == 0 for n in range(200))


def test_many_endpoints_share_their_requests_evenly():
    owners = [Engine(f"node{n}") for n in range(50)]
    for n in range(500):
        pick(owners, key=b"req-%d" % n).inflight += 1
    assert max(one.inflight for one in owners) <= 16


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
            inflight=st.integers(0, 40),
            weight=st.sampled_from([0.5, 1.0, 2.0]),
            priority=st.integers(0, 1),
            is_ready=st.booleans(),
            context_length=st.sampled_from([None, 100, 1000]),
            standing=st.builds(
                Standing,
                seen=st.integers(0, 40),
                waiting=st.integers(0, 9),
                kv=st.none() | st.floats(0, 1),
                drain=st.none() | st.floats(0, 9),
                is_stale=st.booleans(),
            ),
        ),
        max_size=30,
    ),
    st.sampled_from(sorted(WEIGHTS)),
)
def test_choice_is_one_that_was_possible_of_a_priority_that_had_room(owners, profile):
    chosen = pick(owners, profile=profile, tokens=500)
    possible = [one for one in owners if one.is_ready and one.context_length != 100]
    assert (chosen is None) == (not possible)
    roomy = [one for one in possible if one.standing.saturation_at(one.load()) < 1]
    if chosen is not None:
        assert chosen in possible
        assert chosen.priority >= max((one.priority for one in roomy), default=chosen.priority)


@given(st.floats(0, 200), st.integers(0, 20), st.floats(1, 50), st.sampled_from(sorted(WEIGHTS)))
def test_cost_never_falls_with_load(load, waiting, capacity, profile):
    at = standing(waiting=float(waiting), capacity=capacity, drain=1.0, kv=0.5)
    curve = costs.curves(at)[profile]

    def cost(load):
        toll = curve.toll if load <= curve.level_until else curve.toll_at(load)
        return toll + curve.slope * (load + 1)

    assert cost(load) <= cost(load + 1)
    assert curve.toll == pytest.approx(curve.toll_at(min(load, curve.level_until)))


def test_no_profile_prefers_what_is_worse():
    for weights in WEIGHTS.values():
        figures = dataclasses.asdict(weights)
        assert all(figures[name] >= 0 for name in figures if name not in {"name", "may_vary"})


def test_last_resort_is_the_one_that_failed_longest_ago():
    owners = [Engine("a").fail(NOW - 1), Engine("b").fail(NOW - 3), Engine("c").fail(NOW - 2)]
    assert last_resort(owners).name == "b"
    assert last_resort(owners, tried=(owners[1],)).name == "c"


def test_there_is_no_last_resort_while_any_owner_is_closed():
    healthy, failing = Engine("a"), Engine("b").fail(NOW)
    assert last_resort([healthy, failing], tried=(healthy,)) is None


def test_last_resort_is_nobody_while_a_probe_is_under_way():
    failing = Engine("a").fail(NOW)
    failing.breaker.take(NOW, is_forced=True)
    assert last_resort([failing]) is None


def test_last_resort_must_hold_the_prompt_too():
    small, large = Engine("a", context_length=100).fail(NOW - 9), Engine("b").fail(NOW)
    assert last_resort([small, large], tokens=500) is large


def test_choosing_takes_no_permit_of_a_half_open_breaker():
    recovering = Engine("a").fail(NOW - 5)
    for _ in range(3):
        assert pick([recovering]) is recovering
    assert recovering.breaker.take(NOW) is Permit.PROBE
    assert pick([recovering]) is None


def test_round_walks_every_owner_that_may_be_asked_once_and_no_other():
    able = [Engine(f"e{n}", priority=n % 2, inflight=n) for n in range(6)]
    barred = [Engine("x", is_ready=False), Engine("y").fail(NOW), Engine("z", context_length=9)]
    walked = []
    while (one := pick([*barred, *able], tried=walked, tokens=500)) is not None:
        walked.append(one)
    assert sorted(one.name for one in walked) == [one.name for one in able]
    assert [one.priority for one in walked] == [1, 1, 1, 0, 0, 0]
