"""Where a new node will be found, and every mistake in what was typed."""

from __future__ import annotations

import pytest
from ansible_collections.llmgw.fleet.plugins.filter.planning import node_plans


def only(plans):
    (plan,) = plans
    return plan


def test_the_number_in_a_name_is_added_to_the_base():
    plan = only(node_plans(["node05"], {}, base="10.0.0.140/24"))
    assert plan == {
        "name": "node05",
        "address": "10.0.0.145/24",
        "host": "10.0.0.145",
        "mistakes": [],
    }


def test_an_address_that_was_typed_wins_over_the_inventory_and_that_over_the_base():
    known = {"node05": {"node_ip": "10.0.0.7/24", "ansible_host": "10.0.0.8"}}
    base = "10.0.0.140/24"
    assert only(node_plans("node05", known, ip="10.0.0.9/24", base=base))["host"] == "10.0.0.9"
    assert only(node_plans("node05", known, base=base))["host"] == "10.0.0.7"


def test_a_machine_that_the_inventory_knows_needs_no_address():
    assert only(node_plans("box", {"box": {"ansible_host": "box.lan"}}))["host"] == "box.lan"


@pytest.mark.parametrize("name", ["Node_5", "n" * 64, "control-plane", "../x", "{{ x }}", 5])
def test_a_name_that_no_node_may_have_is_a_mistake(name):
    plan = only(node_plans([name], {}, base="10.0.0.140/24"))
    assert len(plan["mistakes"]) == 1
    assert repr(name) in plan["mistakes"][0]


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("node05", {}, "'node05' has no address"),
        ("gpu", {"base": "10.0.0.140/24"}, "ends in no number"),
        ("node99", {"base": "10.0.0.200/24"}, "outside of 10.0.0.0/24"),
        ("node05", {"base": "here"}, "fleet_node_ip_base 'here'"),
        ("node05", {"ip": "10.0.0.300/24"}, "10.0.0.300/24"),
    ],
    ids=["none", "no-number", "outside", "bad-base", "bad-ip"],
)
def test_an_address_that_cannot_be_had_is_a_mistake(name, given, said):
    (mistake,) = only(node_plans([name], {}, **given))["mistakes"]
    assert said in mistake


def test_one_address_cannot_be_that_of_two_nodes():
    first, second = node_plans("node05,node06", {}, ip="10.0.0.145/24")
    assert "ip is the address of one node" in first["mistakes"][0]
    assert second["host"] == ""


def test_two_names_with_one_number_are_not_one_machine():
    first, second = node_plans(["node05", "db5"], {}, base="10.0.0.140/24")
    assert first["mistakes"] == []
    assert second["mistakes"] == [
        "'db5' and 'node05' would both be 10.0.0.145: give one of them another node_ip"
    ]


def test_a_name_that_is_typed_twice_is_one_node():
    assert len(node_plans(["node05", "node05"], {}, base="10.0.0.140/24")) == 1


def test_no_name_is_no_node():
    assert node_plans("", {}) == []
    assert node_plans([""], {}) == []
