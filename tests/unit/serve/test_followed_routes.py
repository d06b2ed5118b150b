"""Which updates a gateway follows, and which it does not."""

from __future__ import annotations

import pytest

from llmgw.domain import route_changes
from llmgw.domain.routes import ModelState
from llmgw.errors import Conflict, Invalid, Standby
from llmgw.rpc import wire_routes
from llmgw.rpc.v1 import gateway_pb2 as pb
from llmgw.serve.followed_routes import FollowedRoutes
from llmgw.serve.liveroutes import LiveRoutes
from tests.fakes.gateway_ends import table


def followed(last=None, *, term=0):
    routes = LiveRoutes(last)
    made = FollowedRoutes(routes)
    made.begin(wire_routes.pack_welcome(term=term))
    return made, routes


def snapshot(one):
    return wire_routes.pack_snapshot(one, term=one.term)


def difference(before, after):
    return wire_routes.pack_change(route_changes.between(before, after), term=after.term)


def test_a_whole_table_and_then_differences_are_followed():
    made, routes = followed(term=2)
    first, second = table(1, "a", term=2), table(2, "a", "b", term=2)
    made.take(snapshot(first))
    made.take(difference(first, second))
    assert routes.current() == second
    assert (made.number, made.term) == (2, 2)


def test_a_difference_to_a_table_that_never_came_is_not_followed():
    made, routes = followed(table(4, "a"))
    with pytest.raises(Conflict, match="before the table"):
        made.take(difference(table(4, "a"), table(5, "b")))
    made.take(snapshot(table(4, "a")))
    with pytest.raises(Conflict, match="a change of table 5 came to table 4"):
        made.take(difference(table(5, "a"), table(6, "b")))
    assert routes.current() == table(4, "a")


def test_a_difference_of_a_newer_term_than_its_table_is_not_followed():
    made, _ = followed(term=2)
    made.take(snapshot(table(1, "a", term=2)))
    later = difference(table(1, "a", term=3), table(2, "b", term=3))
    with pytest.raises(Conflict):
        made.take(later)


def test_an_older_term_is_not_followed_also_after_a_restart():
    last = table(9, "a", term=5)
    made = FollowedRoutes(LiveRoutes(last))
    with pytest.raises(Standby, match="term 4 is over: this gateway has seen term 5"):
        made.begin(wire_routes.pack_welcome(term=4))
    with pytest.raises(Standby):
        made.take(snapshot(table(10, "b", term=4)))
    made.begin(wire_routes.pack_welcome(term=6))
    assert made.term == 6


def test_a_control_plane_whose_term_is_not_checked_is_followed():
    made, routes = followed(table(9, "a", term=5))
    made.take(snapshot(table(1, "b")))
    assert routes.current() == table(1, "b")
    assert made.term == 5


def test_a_table_with_a_lower_number_is_followed_as_any_other():
    made, routes = followed(table(90, "a"))
    made.take(snapshot(table(2, "b")))
    assert routes.current() == table(2, "b")


def test_a_first_word_that_is_no_welcome_ends_the_call():
    with pytest.raises(Invalid):
        FollowedRoutes(LiveRoutes()).begin(snapshot(table(1)))


def test_what_a_newer_control_plane_tells_and_nobody_knows_here_changes_nothing():
    made, routes = followed(table(3, "a"))
    made.take(pb.RouteUpdate(number=4))
    assert routes.current() == table(3, "a")


def test_how_a_wish_stands_lies_over_the_table_until_the_next_one():
    made, routes = followed()
    first = table(1, "a", state=ModelState.ON_DEMAND)
    made.take(snapshot(first))
    loading = table(1, "a", state=ModelState.LOADING)
    made.overlay([loading.models["m"]])
    assert routes.current() == loading
    second = table(2, "a", "b", state=ModelState.ON_DEMAND)
    made.take(difference(first, second))
    assert routes.current() == second
