"""Who stays when clients are too many: pure decisions over guests."""

from __future__ import annotations

import asyncio

from llmgw.gateway.crowding import Crowd
from llmgw.gateway.descriptors import Descriptors


class Guest:
    def __init__(self, *, idle_since=None, holds_large_head=False):
        self.idle_since = idle_since
        self.holds_large_head = holds_large_head
        self.has_left = False

    def leave_if_idle(self):
        self.has_left = True
        self.idle_since = None


def crowd(most):
    return Crowd(Descriptors(now=lambda: 0.0, most=64 + 2 * most))


def test_there_is_room_for_all_while_a_tenth_of_the_places_is_free():
    guests = [Guest(idle_since=0.0) for _ in range(89)]
    assert crowd(100).has_room(guests, asyncio.BaseTransport(), now=100.0)
    assert not any(guest.has_left for guest in guests)


def test_one_that_is_idle_leaves_for_each_that_comes_the_longest_first():
    guests = [Guest(idle_since=float(n)) for n in (7, 3, 5)] + [Guest() for _ in range(92)]
    there = crowd(100)
    left = []
    for _ in range(3):
        assert there.has_room(guests, asyncio.BaseTransport(), now=100.0)
        left += [guest for guest in guests[:3] if guest.has_left and guest not in left]
    assert left == [guests[1], guests[2], guests[0]]


def test_who_has_been_used_again_stays():
    guests = [Guest(idle_since=1.0), Guest(idle_since=2.0), *(Guest() for _ in range(92))]
    there = crowd(100)
    assert there.has_room(guests, asyncio.BaseTransport(), now=100.0)
    guests[1].idle_since = 99.5
    assert there.has_room(guests, asyncio.BaseTransport(), now=100.0)
    assert [guest.has_left for guest in guests[:2]] == [True, False]


def test_nobody_is_looked_for_more_than_a_few_times_a_second():
    guests = [Guest() for _ in range(100)]
    there = crowd(100)
    assert not there.has_room(guests, asyncio.BaseTransport(), now=100.0)
    guests[0].idle_since = 0.0
    assert not there.has_room(guests, asyncio.BaseTransport(), now=100.1)
    assert not guests[0].has_left
    assert not there.has_room(guests, asyncio.BaseTransport(), now=100.3)
    assert guests[0].has_left
    assert there.turned_away == 3


def test_large_heads_that_have_no_end_are_kept_for_so_many_and_no_more():
    guests = [Guest(holds_large_head=True) for _ in range(1024)]
    there = crowd(10_000)
    assert all(there.may_hold_head(guest) for guest in guests)
    late = Guest(holds_large_head=True)
    assert not there.may_hold_head(late)
    assert there.may_hold_head(guests[5])
    guests[7].holds_large_head = False
    assert there.may_hold_head(late)
    there.leave(guests[8])
    assert there.may_hold_head(Guest(holds_large_head=True))


def test_few_who_were_turned_away_linger():
    there = crowd(100)
    guests = [Guest() for _ in range(17)]
    assert [there.may_linger(guest) for guest in guests] == [True] * 16 + [False]
    there.leave(guests[0])
    assert there.may_linger(guests[16])
