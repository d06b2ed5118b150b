"""Sessions and prefixes draw a request to an endpoint, as far as balance allows."""

from __future__ import annotations

from collections import Counter

import pytest

from llmgw.gateway import picking
from llmgw.gateway.costs import WEIGHTS
from llmgw.gateway.prefix import Following, PrefixRules, PrefixTree
from llmgw.gateway.scores import Wish
from tests.fakes.choices import Engine, standing

NOW = 100.0
HEAD = b"x" * 640


def fleet(*loads, **figures):
    return [
        Engine(f"e{n}", inflight=load, standing=standing(capacity=256.0, share=256.0, **figures))
        for n, load in enumerate(loads)
    ]


def pick(owners, *, key=b"req-1", session=False, trail=None, profile="chat"):
    wish = Wish(key, weights=WEIGHTS[profile])
    wish.session_load_factor = 1.25 if session else 0.0
    wish.trail = trail
    picked = picking.pick(owners, tried=(), now=NOW, wish=wish)
    return picked.choice, picked.following


def choose(owners, **wish):
    return pick(owners, **wish)[0]


def trail_to(*holders, head=HEAD, asked=None, rules=None):
    tree = PrefixTree(rules or PrefixRules())
    for one in holders:
        tree.insert(b"m", head, incarnation=one.incarnation, now=NOW)
    return tree.trail(b"m", asked or head, NOW)


@pytest.mark.parametrize(
    ("loads", "is_kept"),
    [((2, 0), True), ((200, 180), True), ((30, 10), False), ((9, 1), True), ((24, 16), True)],
    ids=["idle", "busy", "uneven", "by-difference", "by-ratio"],
)
def test_cache_is_given_up_only_where_difference_and_ratio_are_both_too_large(loads, is_kept):
    holder, other = fleet(*loads)
    chosen, following = pick([holder, other], trail=trail_to(holder))
    assert (chosen is holder) == is_kept
    assert following is (Following.CACHE_HIT if is_kept else Following.LOAD_BALANCE_OVERRIDE)


def test_uneven_load_elsewhere_takes_nobodys_cache_away():
    holder, _, other = owners = fleet(10, 40, 10)
    assert pick(owners, trail=trail_to(holder)) == (holder, Following.CACHE_HIT)
    assert pick(owners, trail=trail_to(other)) == (other, Following.CACHE_HIT)


def test_each_outcome_is_counted_under_its_name():
    holder, _ = owners = fleet(3, 0)
    assert pick(owners, trail=trail_to(holder))[1] is Following.CACHE_HIT
    assert pick(owners, trail=trail_to())[1] is Following.CACHE_MISS_MIN_LOAD
    assert pick(owners, trail=trail_to(holder, asked=b"x" * 63))[1] is Following.NO_PREFIX
    assert pick(owners)[1] is None
    owners = fleet(30, 0)
    override = pick(owners, trail=trail_to(owners[0]))
    assert override[1] is Following.LOAD_BALANCE_OVERRIDE


def fleet_as(owners, *loads):
    for one, load in zip(owners, loads, strict=True):
        one.inflight = load
    return owners


def test_session_goes_before_prefix_and_is_counted_as_such():
    owners = fleet(0, 0)
    holder, other = owners
    key = next(key for key in keys() if choose(owners, key=key, session=True) is other)
    picked = pick(owners, key=key, session=True, trail=trail_to(holder))
    assert picked == (other, Following.SESSION_HOME)


def test_miss_goes_to_the_least_loaded():
    owners = fleet(5, 1, 3)
    assert pick(owners, trail=trail_to()) == (owners[1], Following.CACHE_MISS_MIN_LOAD)


def test_of_several_holders_the_longest_match_counts_and_then_the_cheaper():
    short, busy, free = owners = [
        Engine(f"e{n}", inflight=load) for n, load in enumerate((0, 5, 2))
    ]
    tree = PrefixTree(PrefixRules())
    tree.insert(b"m", HEAD[:320], incarnation=short.incarnation, now=NOW)
    for one in (busy, free):
        tree.insert(b"m", HEAD, incarnation=one.incarnation, now=NOW)
    assert choose(owners, trail=tree.trail(b"m", HEAD, NOW)) is free


@pytest.mark.parametrize("reason", ["draining", "left alone"])
def test_holder_that_may_not_be_asked_is_no_hit(reason):
    holder, other = owners = fleet(0, 0)
    if reason == "draining":
        holder.is_ready = False
    else:
        holder.fail(NOW)
    assert pick(owners, trail=trail_to(holder)) == (other, Following.CACHE_MISS_MIN_LOAD)


def test_holder_whose_queue_outweighs_its_cache_is_passed_over():
    full = Engine("a", inflight=16)
    idle = Engine("b", inflight=12)
    rules = PrefixRules(balance_abs=100.0)
    picked = pick([full, idle], trail=trail_to(full, asked=HEAD + b"y" * 1000, rules=rules))
    assert picked == (idle, Following.LOAD_BALANCE_OVERRIDE)


def test_debug_profile_follows_nobody():
    first, holder = owners = fleet(0, 0)
    assert pick(owners, trail=trail_to(holder), profile="debug") == (first, None)


def test_session_stays_at_its_home_while_that_is_not_far_above_its_share():
    owners = fleet(0, 0, 0, 0)
    for key in keys(40):
        home = choose(owners, key=key, session=True)
        fleet_as(owners, 10, 10, 10, 10)
        home.inflight = 14  # its share of all 44 is 11, and 1.25 times that, rounded up, 14
        assert choose(owners, key=key, session=True) is home
        home.inflight = 16
        assert choose(owners, key=key, session=True) is not home
        fleet_as(owners, 0, 0, 0, 0)


def test_share_of_the_load_is_by_weight():
    heavy, light = Engine("a", weight=3.0), Engine("b")
    key = next(key for key in keys() if choose([heavy, light], key=key, session=True) is heavy)
    heavy.inflight, light.inflight = 13, 3
    assert choose([heavy, light], key=key, session=True) is heavy


def test_sessions_are_spread_evenly_and_every_worker_names_the_same_home():
    here, there = fleet(*[0] * 5), fleet(*[0] * 5)
    homes = Counter()
    for key in keys(2000):
        name = choose(here, key=key, session=True).name
        assert choose(there[::-1], key=key, session=True).name == name
        homes[name] += 1
    assert all(320 <= count <= 480 for count in homes.values()), homes


@pytest.mark.parametrize("count", [8, 40])
def test_endpoint_that_leaves_moves_only_its_own_sessions(count):
    owners = fleet(*[0] * count)
    before = {key: choose(owners, key=key, session=True) for key in keys(400)}
    left = owners.pop(3)
    for key, home in before.items():
        now = choose(owners, key=key, session=True)
        assert now is home if home is not left else now is not left


def test_session_whose_home_is_down_is_served_elsewhere():
    owners = fleet(0, 0)
    home = choose(owners, key=b"s", session=True)
    home.fail(NOW)
    assert choose(owners, key=b"s", session=True) is not home


@pytest.mark.parametrize("count", [3, 40])
def test_holder_is_found_among_any_number_of_endpoints(count):
    owners = fleet(*[1] * count)
    for holder in owners:
        assert choose(owners, trail=trail_to(holder)) is holder


def keys(count=1000):
    return (b"session-%d" % n for n in range(count))
