"""What operators may change of the catalog, and what they are told where they may not."""

from __future__ import annotations

import functools

import pytest

from llmgw.control.catalog import composing, editing
from llmgw.domain import transcribing
from llmgw.domain.catalog import Model, Scaling
from llmgw.domain.catalog_views import ScalingWish
from llmgw.errors import CatalogInvalid, Conflict, Invalid, Unknown
from tests.fakes.stored_models import row, written

BIG = Model("big", "/w", aliases=("large",), description="x")
SMALL = row("small", aliases=["little"], scaling={"min": 1, "idle_timeout": "45m"})
USER = row("user", fallbacks=["little"])
BAD = row("bad", fallbacks=["gone"])
NOW = composing.compose((BIG,), (SMALL, USER, BAD))


def after(make, *given, **options):
    edits = make(NOW, *given, **options)
    return composing.changed(NOW, edits, at=9.0).catalog


def refusal(kind, make, *given, **options):
    with pytest.raises(kind) as caught:
        after(make, *given, **options)
    return caught.value.message


def test_a_new_model_is_added_and_a_stored_one_replaced_only_on_purpose():
    assert after(editing.added, written("new"), may_replace=False).stored == {
        "small",
        "user",
        "new",
    }
    other = written("small", aliases=["little"], source="/other")
    told = refusal(Conflict, editing.added, other, may_replace=False)
    assert "small is there already" in told
    assert "--replace" in told
    assert after(editing.added, other, may_replace=True).models["small"].source == "/other"


def test_the_same_definition_again_is_no_change():
    assert editing.added(NOW, SMALL.definition, may_replace=False) == ()


def test_a_skipped_row_may_be_written_anew_and_removed():
    told = refusal(Conflict, editing.added, written("bad"), may_replace=False)
    assert "left out of the catalog: fallbacks[0]: 'gone'" in told
    assert "bad" in after(editing.added, written("bad"), may_replace=True).stored
    assert after(editing.removed, "bad").skipped == {}


@pytest.mark.parametrize("name", ["big", "large"])
@pytest.mark.parametrize(
    "make",
    [
        functools.partial(editing.rescaled, wish=ScalingWish(1)),
        functools.partial(editing.with_fallbacks, fallbacks=["small"]),
        functools.partial(editing.described, description="y"),
        editing.removed,
    ],
    ids=["scale", "fallbacks", "describe", "remove"],
)
def test_a_declared_model_is_changed_in_the_settings_alone(make, name):
    told = refusal(Conflict, make, name)
    assert told.startswith("big is declared in the settings of the server; change it there")
    assert "server.yaml" in told


def test_a_stored_model_takes_no_declared_name_or_alias():
    assert "big is declared" in refusal(Conflict, editing.added, written("large"), may_replace=True)
    with pytest.raises(CatalogInvalid) as caught:
        after(editing.added, written("new", aliases=["large", "big"]), may_replace=False)
    assert {p.path: p.message for p in caught.value.problems} == {
        "aliases[0]": "'large' is taken by the declared model big",
        "aliases[1]": "'big' is taken by the declared model big",
    }


def test_every_mistake_is_told_at_once_with_its_path():
    bad = {
        "name": "new",
        "surce": "x",
        "aliases": ["little"],
        "profiles": [{"name": "p", "engine": "vlm", "tp": 0}],
    }
    with pytest.raises(CatalogInvalid) as caught:
        after(editing.added, bad, may_replace=False)
    assert {p.path for p in caught.value.problems} == {
        "surce",
        "source",
        "aliases[0]",
        "profiles[0].engine",
        "profiles[0].tp",
    }


def test_what_others_fall_back_to_is_not_removed():
    told = refusal(Conflict, editing.removed, "small")
    assert told.startswith("user fall(s) back to small")
    assert "llmgw ctl model fallbacks user" in told
    assert after(editing.removed, "user").stored == {"small"}


def test_a_replacement_that_takes_away_what_others_fall_back_to_is_refused():
    told = refusal(Conflict, editing.added, written("small"), may_replace=True)
    assert "user depends on it" in told


def test_scaling_changes_nothing_else_and_keeps_the_idle_timeout_as_it_was_written():
    (edit,) = editing.rescaled(NOW, "little", ScalingWish(2))
    assert edit.definition == {**SMALL.definition, "scaling": {"min": 2, "idle_timeout": "45m"}}
    assert list(edit.definition) == list(SMALL.definition)
    catalog = after(editing.rescaled, "small", ScalingWish(2))
    assert catalog.models["small"].scaling == Scaling(min=2, max=2, idle_timeout_s=2700.0)


@pytest.mark.parametrize(
    ("wish", "scaling"),
    [
        (ScalingWish(0), Scaling(0, 0, 2700.0)),
        (ScalingWish(0, 1), Scaling(0, 1, 2700.0)),
        (ScalingWish(2, 3, "1h"), Scaling(2, 3, 3600.0)),
    ],
    ids=["off", "on-demand", "all"],
)
def test_the_scaling_in_force_is_what_was_wished(wish, scaling):
    assert after(editing.rescaled, "small", wish).models["small"].scaling == scaling


@pytest.mark.parametrize(
    "wish", [ScalingWish(3, 2), ScalingWish(0, 1, "5s"), ScalingWish(1, None, "soon")], ids=repr
)
def test_a_scaling_that_cannot_be_is_refused(wish):
    with pytest.raises(CatalogInvalid) as caught:
        after(editing.rescaled, "small", wish)
    assert caught.value.problems[0].path.startswith("scaling")


def test_fallbacks_and_descriptions_are_given_and_taken_away():
    assert after(editing.with_fallbacks, "small", ["large"]).models["small"].fallbacks == ("large",)
    assert "fallbacks" not in editing.with_fallbacks(NOW, "user", [])[0].definition
    assert after(editing.described, "small", "quick").models["small"].description == "quick"
    assert editing.described(NOW, "small", "") == ()


def test_an_unknown_model_and_an_alias_are_told_apart():
    assert "no model 'nosuch'" in refusal(Unknown, editing.removed, "nosuch")
    assert "'little' is another name of small" in refusal(Unknown, editing.removed, "little")
    told = refusal(Conflict, editing.described, "bad", "x")
    assert "left out of the catalog" in told


def test_a_whole_catalog_that_means_what_is_there_is_no_change():
    whole = [transcribing.written(model) for model in NOW.catalog.models.values()]
    assert editing.applied(NOW, whole, may_remove=False) == []


def test_a_whole_catalog_adds_and_changes_and_removes_only_where_it_may():
    user = transcribing.written(NOW.catalog.models["user"])
    wanted = [
        written("new"),
        {**user, "fallbacks": ["new"]},
        transcribing.written(BIG),
    ]
    kept = after(editing.applied, wanted, may_remove=False)
    assert kept.stored == {"new", "user", "small"}
    assert kept.models["user"].fallbacks == ("new",)
    pruned = after(editing.applied, wanted, may_remove=True)
    assert (pruned.stored, dict(pruned.skipped)) == ({"new", "user"}, {})


def test_a_whole_catalog_that_wants_declared_models_otherwise_names_them():
    told = refusal(Conflict, editing.applied, [{"name": "big", "source": "/v"}], may_remove=False)
    assert told.startswith("big: declared in the settings of the server")


def test_a_model_that_is_written_twice_is_refused():
    told = refusal(Invalid, editing.applied, [written("a"), written("a")], may_remove=False)
    assert "a is written twice" in told


def test_mistakes_of_several_models_name_each_one():
    with pytest.raises(CatalogInvalid) as caught:
        after(editing.applied, [written("a", x=1), written("b", y=1)], may_remove=False)
    assert {p.path for p in caught.value.problems} == {"a.x", "b.y"}


@pytest.mark.parametrize("name", [None, "", 5], ids=repr)
def test_a_definition_without_a_name_is_refused(name):
    with pytest.raises(CatalogInvalid) as caught:
        after(editing.added, {"name": name, "source": "/w"}, may_replace=False)
    assert caught.value.problems[0].path == "name"
