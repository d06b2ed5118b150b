"""What becomes of the entries of a catalog."""

from __future__ import annotations

import dataclasses

import pytest

from llmgw.control.catalog import comparing
from llmgw.domain import catalog_rules
from llmgw.domain.catalog import Model, Profile, Scaling
from llmgw.domain.catalog_views import ChangeKind, FieldChange

CPU = Profile("cpu", "sim", args=("--x", "1"), env={"TOKEN": "hunter2"})
MODEL = Model("m", "/w", scaling=Scaling(1, 1), profiles=(CPU,))


def changes(before, after):
    return comparing.changes(catalog_rules.build(before), catalog_rules.build(after))


def test_entries_that_come_change_and_go_are_told_in_the_order_of_their_names():
    found = changes(
        [MODEL, Model("z", "/w")], [Model("a", "/w"), dataclasses.replace(MODEL, description="x")]
    )
    assert [(one.name, one.kind) for one in found] == [
        ("a", ChangeKind.ADD),
        ("m", ChangeKind.CHANGE),
        ("z", ChangeKind.REMOVE),
    ]
    assert found[1].fields == (FieldChange("description", None, "x"),)


def test_equal_catalogs_have_no_changes():
    assert changes([MODEL], [MODEL]) == []


@pytest.mark.parametrize(
    ("changed", "stale"),
    [
        ({"priority": 5}, ()),
        ({"startup_timeout_s": 60.0}, ()),
        ({"weight": 3.0}, ()),
        ({"node_selector": {"a": "b"}}, ()),
        ({"min_memory_gb": 1.0}, ()),
        ({"args": ("--y",)}, ("cpu",)),
        ({"env": {"TOKEN": "other"}}, ("cpu",)),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else "",
)
def test_only_what_the_process_is_started_from_makes_replicas_stale(changed, stale):
    profile = dataclasses.replace(CPU, **changed)
    (found,) = changes([MODEL], [dataclasses.replace(MODEL, profiles=(profile,))])
    assert found.stale_profiles == stale


def test_another_source_makes_replicas_stale():
    (found,) = changes([MODEL], [dataclasses.replace(MODEL, source="/v")])
    assert found.stale_profiles == ("cpu",)


def test_values_of_the_environment_are_not_told():
    profile = dataclasses.replace(CPU, env={"TOKEN": "other"})
    (found,) = changes([MODEL], [dataclasses.replace(MODEL, profiles=(profile,))])
    assert found.fields == (FieldChange("profiles[cpu].env.TOKEN", "(hidden)", "(hidden)"),)
