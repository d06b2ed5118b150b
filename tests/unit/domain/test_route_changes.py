"""A change makes exactly the next table of the last one, and of no other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.domain import route_changes
from llmgw.domain.routes import Endpoint, ModelState, RoutedModel, RouteTable
from llmgw.errors import Conflict

NAMES = ("a", "b", "c", "d", "e", "f")


def table(endpoints=(), models=(), *, number=1, term=0):
    by_name = {model.name: model for model in models}
    return RouteTable(
        number=number,
        term=term,
        endpoints=tuple(endpoints),
        models=by_name,
        canonical=route_changes.canonical(by_name),
    )


def endpoint(name, *, weight=1.0):
    return Endpoint(endpoint_id=name, url=f"http://{name}:1", models=("m",), weight=weight)


def model(name, *, state=ModelState.READY):
    return RoutedModel(name=name, aliases=(f"{name}-alias",), state=state)


def tables(number):
    names = st.lists(st.sampled_from(NAMES), unique=True)
    listed = st.lists(st.sampled_from((1.0, 2.0)), min_size=len(NAMES), max_size=len(NAMES))
    return st.builds(
        lambda e, w, m, s: table(
            [endpoint(name, weight=weight) for name, weight in zip(e, w, strict=False)],
            [
                model(name, state=ModelState.READY if one == 1.0 else ModelState.LOADING)
                for name, one in zip(m, s, strict=False)
            ],
            number=number,
        ),
        names,
        listed,
        names,
        listed,
    )


@given(before=tables(7), after=tables(9))
def test_a_table_and_its_change_make_the_next_table_in_its_order(before, after):
    change = route_changes.between(before, after)
    if change is None:
        return
    made = route_changes.applied(before, change)
    assert made == after
    assert list(made.models) == list(after.models)


@given(after=tables(2))
def test_from_nothing_and_to_nothing_there_is_always_a_change(after):
    nothing = table(number=1)
    assert route_changes.applied(nothing, route_changes.between(nothing, after)) == after
    change = route_changes.between(after, replace(nothing, number=3))
    assert route_changes.applied(after, change) == replace(nothing, number=3)


def test_a_change_names_only_what_changed():
    before = table(map(endpoint, "abc"), map(model, "xyz"))
    after = table(
        [endpoint("a"), endpoint("b", weight=2.0), endpoint("bb")],
        [model("x"), model("y", state=ModelState.LOADING), model("z")],
        number=2,
    )
    change = route_changes.between(before, after)
    assert change.endpoints.gone == ("c",)
    assert [(place, one.endpoint_id) for place, one in change.endpoints.placed] == [
        (1, "b"),
        (2, "bb"),
    ]
    assert [(place, one.name) for place, one in change.models.placed] == [(1, "y")]


def test_another_order_is_told_as_a_whole_table():
    before = table(map(endpoint, "abc"))
    assert route_changes.between(before, table(map(endpoint, "cba"), number=2)) is None


def test_a_new_term_is_told_as_a_whole_table():
    before = table(map(endpoint, "abc"), term=3)
    assert route_changes.between(before, replace(before, number=2, term=4)) is None


def test_a_change_of_another_table_is_refused():
    change = route_changes.between(table(number=4), table([endpoint("a")], number=5))
    with pytest.raises(Conflict, match="a change of table 4 came to table 3"):
        route_changes.applied(table(number=3), change)


def test_names_and_aliases_follow_the_models():
    before = table(models=[model("x")])
    after = route_changes.applied(
        before, route_changes.between(before, table(models=[model("y")], number=2))
    )
    assert after.canonical == {"y": "y", "y-alias": "y"}


def test_newer_facts_of_models_lie_over_those_that_are_listed():
    before = table([endpoint("a")], [model("x"), model("y")])
    loading = model("y", state=ModelState.LOADING)
    after = route_changes.overlaid(before, [loading, model("unlisted")])
    assert after.models == {"x": model("x"), "y": loading}
    assert route_changes.overlaid(after, [loading]) is after
