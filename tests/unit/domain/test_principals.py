"""What the levels above a key let it do, and how their limits are shown."""

from __future__ import annotations

from llmgw.domain.principals import Level, Principal, Tightest, compose, may_use


def owner(*levels):
    names = {"key_id": "k", "name": "n", "project_id": "p", "team_id": "t", "org_id": "o"}
    return Principal(**names, levels=levels, models=compose(levels).models)


def test_without_any_list_a_key_may_use_everything():
    assert may_use(owner(Level("org", "o", rpm=1)), "llama")


def test_every_list_above_a_key_must_name_the_model():
    both = owner(
        Level("org", "o", models=frozenset({"a", "b"})), Level("key", "k", models=frozenset({"b"}))
    )
    assert [may_use(both, name) for name in "abc"] == [False, True, False]
    assert both.models == {"b"}


def test_an_alias_and_its_model_are_the_same_entry_in_every_list():
    """One list has the alias and another the model: what both mean may be used."""
    mixed = owner(
        Level("org", "o", models=frozenset({"gpt"})),
        Level("team", "t", models=frozenset({"llama"})),
    )
    assert may_use(mixed, "llama", ("gpt",))
    assert not may_use(mixed, "llama", ("other",))


def test_an_empty_list_closes_a_place():
    assert not may_use(owner(Level("project", "p", models=frozenset())), "llama", ("gpt",))


def test_the_smallest_limit_is_shown_with_its_owner_the_topmost_of_equal_ones():
    shown = compose(
        (
            Level("org", "o", rpm=10, tpm=5, budget=100, period="month"),
            Level("team", "t", rpm=3, budget=100),
            Level("key", "k", rpm=7, concurrency=2),
        )
    )
    assert shown.rpm == Tightest(3, counter="team:t")
    assert shown.tpm == Tightest(5, counter="org:o")
    assert shown.budget == Tightest(100, counter="org:o", period="month")
    assert shown.concurrency == Tightest(2, counter="key:k")
    assert shown.models is None
    assert compose(()).rpm is None


def test_a_budget_of_nothing_limits_and_an_absent_one_does_not():
    assert Level("key", "k", budget=0).is_limiting
    assert not Level("key", "k", period="day").is_limiting
