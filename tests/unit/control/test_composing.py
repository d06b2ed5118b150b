"""One catalog of what is declared and what is stored."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.control.catalog import composing
from llmgw.domain import catalog_rules, definitions
from llmgw.domain.catalog import Model
from llmgw.errors import CatalogInvalid
from tests.fakes.stored_models import row, written

BIG = Model("big", "/w", aliases=("large",))


def compose(*rows, declared=(BIG,)):
    return composing.compose(declared, rows).catalog


def test_declared_and_stored_models_are_one_catalog_that_knows_which_is_which():
    catalog = compose(row("small", aliases=["little"]))
    assert list(catalog.models) == ["big", "small"]
    assert catalog.stored == {"small"}
    assert catalog.resolve("little") is catalog.models["small"]


def test_what_is_declared_wrongly_stops_the_start():
    with pytest.raises(CatalogInvalid):
        compose(declared=(Model("a", "/w", fallbacks=("b",)),))


@pytest.mark.parametrize(
    ("corrupt", "why"),
    [
        (row("bad", "no JSON any more"), "its definition cannot be read"),
        (row("bad", {"name": "bad"}), "source: is required"),
        (row("bad", written("other")), "its definition is of another name, 'other'"),
        (row("bad", surce="x"), "surce: unknown key of a model"),
        (row("bad", fallbacks=["gone"]), "fallbacks[0]: 'gone' is neither a model nor an alias"),
        (row("big", at=0.5), "name: 'big' is taken by the declared model big"),
        (row("bad", aliases=["large"]), "aliases[0]: 'large' is taken by the declared model big"),
        (row("bad", aliases=["good"]), "aliases[0]: 'good' is taken by the model good, name"),
    ],
    ids=[
        "text", "field", "name", "key", "fallback", "declared-name", "declared-alias", "alias",
    ],
)  # fmt: skip
def test_one_corrupt_row_is_skipped_by_name_and_takes_nothing_else_down(corrupt, why):
    catalog = compose(row("good", at=0.1), corrupt)
    assert catalog.models.keys() == {"big", "good"}
    assert catalog.skipped.keys() == {corrupt.name}
    assert catalog.skipped[corrupt.name].startswith(why)


def test_a_stored_name_that_is_a_declared_alias_is_the_one_in_the_wrong():
    catalog = compose(row("large"))
    assert catalog.skipped == {"large": "name: 'large' is taken by the declared model big"}
    assert catalog.resolve("large") is catalog.models["big"]


def test_rows_that_rest_on_each_other_are_taken_in_whatever_their_order():
    chain = [row("a", fallbacks=["b"]), row("b", fallbacks=["c"]), row("c", fallbacks=["a"])]
    for order in itertools.permutations(chain):
        assert compose(*order).skipped == {}


def test_what_rests_on_a_skipped_row_is_skipped_too_and_says_so():
    catalog = compose(row("a", fallbacks=["b"]), row("b", fallbacks=["c"]), row("c", engine=1))
    assert catalog.skipped.keys() == {"a", "b", "c"}
    assert catalog.skipped["a"] == "fallbacks[0]: 'b' is neither a model nor an alias"


def test_a_row_that_lost_its_name_to_a_skipped_one_gets_it_back():
    thief = row("thief", aliases=["mine"], fallbacks=["gone"], at=0.1)
    assert compose(thief, row("mine", at=0.2), row("user", fallbacks=["mine"])).stored == {
        "mine",
        "user",
    }


def test_no_reason_of_a_skipped_row_repeats_a_secret():
    catalog = compose(row("a", profiles=[{"name": "p", "engine": "sim", "env": "hunter2"}]))
    assert "env" in catalog.skipped["a"]
    assert "hunter2" not in catalog.skipped["a"]


NAMES = st.sampled_from("abcdef")


@settings(max_examples=50)
@given(
    st.lists(
        st.builds(
            lambda name, aliases, fallbacks, is_broken, at: row(
                name,
                aliases=aliases,
                fallbacks=fallbacks,
                at=at,
                **({"x": 1} if is_broken else {}),
            ),
            NAMES,
            st.lists(NAMES, max_size=2),
            st.lists(NAMES, max_size=2),
            st.booleans(),
            st.integers(0, 3).map(float),
        ),
        unique_by=lambda one: one.name,
        max_size=6,
    )
)
def test_whatever_is_stored_what_is_left_out_could_not_be_taken_in(rows):
    catalog = compose(*rows)
    assert "big" in catalog.models
    assert catalog.stored | catalog.skipped.keys() == {one.name for one in rows}
    assert not catalog.stored & catalog.skipped.keys()
    taken = dict.fromkeys(catalog.canonical, "another")
    for one in rows:
        if one.name in catalog.skipped and "x" not in one.definition:
            (entry,) = definitions.read_model(one.definition, path="m").entries
            assert catalog_rules.check([entry], taken=taken) != ()
