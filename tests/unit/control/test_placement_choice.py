"""Which of the nodes that fit is chosen, and what of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.inventory import claims
from llmgw.control.placement import cards, planning, tcp_ports
from llmgw.control.reconciler import starting
from llmgw.domain.nodes import Fabric
from llmgw.domain.snapshots import Bounds, Failures
from tests.fakes import clusters
from tests.fakes.clusters import NOW


def placement(on, model, *, failures=None, bounds=None):
    space = planning.space(on, now=NOW, bounds=bounds or Bounds())
    return planning.plan(space, model, failures=failures).placement


def nodes_of(placed):
    return [slot.node_id for slot in placed.slots]


def held(replica_id, node_id, *, of="other", gpus=(), port=20000, profile="cpu"):
    one = clusters.shard(replica_id, node_id=node_id, gpu_indices=gpus, http_port=port)
    return clusters.replica(replica_id, one, of=of, profile=profile)


def failed(model, *, at=NOW - 5, node="n1", by_profile=None):
    return Failures(
        definition=model,
        count=1,
        until_at=NOW,
        failed_at=at,
        replica_id="m-1",
        profile="cpu",
        error="x",
        by_profile=by_profile or {},
        by_node={node: at},
    )


def test_highest_priority_that_fits_wins_and_the_next_is_tried_when_it_does_not():
    low = clusters.profile("low", priority=1)
    high = clusters.gpu_profile("high", priority=9)
    model = clusters.model("m", low, high)
    assert placement(clusters.cluster(clusters.node("n1")), model).profile.name == "low"
    assert placement(clusters.cluster(clusters.node("n1", gpus=1)), model).profile.name == "high"


def test_equal_priorities_keep_the_order_of_writing():
    model = clusters.model("m", clusters.profile("b"), clusters.profile("a"))
    assert placement(clusters.cluster(clusters.node("n1")), model).profile.name == "b"


def test_profile_that_failed_three_times_in_a_row_is_tried_last():
    model = clusters.model("m", clusters.profile("a", priority=9), clusters.profile("b"))
    on = clusters.cluster(clusters.node("n1"))
    two, three = (failed(model, by_profile={"a": n}, node="n9") for n in (2, 3))
    assert placement(on, model, failures=two).profile.name == "a"
    assert placement(on, model, failures=three).profile.name == "b"


def test_cards_are_packed_so_that_whole_nodes_stay_free():
    on = clusters.cluster(
        clusters.node("n1", gpus=8),
        clusters.node("n2", gpus=8),
        replicas=[held("a-1", "n2", gpus=(0, 1))],
    )
    placed = placement(on, clusters.model("m", clusters.gpu_profile(tp=2)))
    assert nodes_of(placed) == ["n2"]
    assert placed.slots[0].gpu_indices == (2, 3)
    assert placed.slots[0].http_port == 20001


def test_processor_replicas_are_spread():
    on = clusters.cluster(clusters.node("n1"), clusters.node("n2"), replicas=[held("a-1", "n1")])
    assert nodes_of(placement(on, clusters.model("m"))) == ["n2"]


def test_lone_node_takes_all():
    on = clusters.cluster(
        clusters.node("n1"), replicas=[held("a-1", "n1", of="m"), held("b-1", "n1", port=20001)]
    )
    placed = placement(on, clusters.model("m", min=3))
    assert nodes_of(placed) == ["n1"]
    assert placed.slots[0].http_port == 20002


@pytest.mark.parametrize(
    "profile", [clusters.profile(), clusters.gpu_profile()], ids=["cpu", "gpu"]
)
def test_second_replica_of_a_model_prefers_another_node_before_weights_and_packing(profile):
    on = clusters.cluster(
        clusters.node("n1", gpus=2, weights=["/weights/m.gguf"]),
        clusters.node("n2", gpus=8),
        replicas=[held("m-1", "n1", of="m", gpus=(0,))],
    )
    assert nodes_of(placement(on, clusters.model("m", profile, min=2))) == ["n2"]


def test_holder_of_the_weights_is_preferred_and_nobody_is_excluded_for_them():
    model = clusters.model("m", clusters.gpu_profile())
    bare = clusters.node("n1", gpus=1)
    holder = clusters.node("n2", gpus=8, weights=["/weights/m.gguf"])
    assert nodes_of(placement(clusters.cluster(bare, holder), model)) == ["n2"]
    assert nodes_of(placement(clusters.cluster(bare), model)) == ["n1"]


def test_node_where_the_model_failed_lately_is_the_last_choice_and_still_a_choice():
    model = clusters.model("m")
    both = clusters.cluster(clusters.node("n1"), clusters.node("n2"))
    assert nodes_of(placement(both, model, failures=failed(model))) == ["n2"]
    assert nodes_of(placement(both, model, failures=failed(model, at=NOW - 601))) == ["n1"]
    lone = clusters.cluster(clusters.node("n1"))
    assert nodes_of(placement(lone, model, failures=failed(model))) == ["n1"]


def test_several_nodes_are_the_emptiest_of_one_fabric():
    on = clusters.cluster(
        clusters.node("n1", gpus=8, fabrics=["ib"]),
        clusters.node("n2", gpus=8, fabrics=["ib"]),
        clusters.node("n3", gpus=8, fabrics=["ib"]),
        replicas=[held("a-1", "n1", gpus=(0, 1))],
    )
    placed = placement(on, clusters.model("m", clusters.wide_profile()))
    assert nodes_of(placed) == ["n2", "n3"]
    assert placed.fabric == "ib"
    assert placed.pool == "ib/h100-80g"
    assert [slot.rank for slot in placed.slots] == [0, 1]
    assert [slot.hcas for slot in placed.slots] == [("ib_0",), ("ib_0",)]
    leader, worker = placed.slots
    assert (leader.http_port, leader.leader_port) == (20000, 20001)
    assert (worker.http_port, worker.leader_port) == (20000, 0)
    assert placed.leader_addr == on.nodes["n2"].facts.mgmt_addr


def test_two_fabrics_that_fit_half_are_not_combined():
    on = clusters.cluster(
        clusters.node("n1", gpus=4, fabrics=["a"]), clusters.node("n2", gpus=4, fabrics=["b"])
    )
    assert placement(on, clusters.model("m", clusters.wide_profile())) is None


def test_node_without_a_fabric_never_takes_part():
    on = clusters.cluster(
        clusters.node("n1", gpus=8),
        clusters.node("n2", gpus=4, fabrics=["a"]),
        clusters.node("n3", gpus=4, fabrics=["a"]),
    )
    placed = placement(on, clusters.model("m", clusters.wide_profile()))
    assert sorted(nodes_of(placed)) == ["n2", "n3"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"b1": {"weights": ["/weights/m.gguf"]}}, "b"),
        (
            {
                "b1": {"fabrics": [Fabric("b", ("x",), 800)]},
                "b2": {"fabrics": [Fabric("b", ("x",), 800)]},
            },
            "b",
        ),
        ({"b3": {"gpus": 4, "fabrics": ["b"]}}, "b"),
        ({}, "a"),
    ],
    ids=["weights", "rate", "room-left", "name"],
)
def test_fabric_is_chosen_by_weights_then_rate_then_room_then_name(changes, expected):
    plain = {name: {"gpus": 4, "fabrics": [name[0]]} for name in ("a1", "a2", "b1", "b2")}
    merged = {name: {**plain.get(name, {}), **changes.get(name, {})} for name in {*plain, *changes}}
    on = clusters.cluster(*(clusters.node(name, **what) for name, what in merged.items()))
    assert placement(on, clusters.model("m", clusters.wide_profile())).fabric == expected


def test_agents_of_one_machine_are_given_different_ports_in_one_placement():
    on = clusters.cluster(
        clusters.node("n1", gpus=4, fabrics=["a"], mgmt_addr="10.0.0.1"),
        clusters.node("n2", gpus=4, fabrics=["a"], mgmt_addr="10.0.0.1"),
    )
    placed = placement(on, clusters.model("m", clusters.wide_profile()))
    ports = [p for s in placed.slots for p in (s.http_port, s.leader_port) if p]
    assert sorted(ports) == [20000, 20001, 20002]


def test_the_ports_that_a_leader_opens_for_its_ranks_follow_each_other_and_are_its_own():
    on = clusters.cluster(
        clusters.node("n1", gpus=8, fabrics=["ib"], engine_versions={"sglang": "0.5.23"}),
        clusters.node("n2", gpus=8, fabrics=["ib"], engine_versions={"sglang": "0.5.23"}),
        replicas=[held("a-1", "n1", port=20003), held("a-2", "n2", port=20003)],
    )
    splits = replace(clusters.wide_profile(), engine="sglang", args=("--enable-dp-attention",))
    model = clusters.model("m", splits)
    first = placement(on, model)
    assert [slot.http_port for slot in first.slots] == [20000, 20000]
    assert [slot.leader_port for slot in first.slots] == [20004, 0]
    made = starting.place(first, model=model, replica_id="m-1", now=NOW, reason="").replica
    book = claims.by_node(replace(on, replicas={"m-1": made}), now=NOW)
    assert book[first.slots[0].node_id].ports == {20000, *range(20004, 20018)}
    assert book[first.slots[1].node_id].ports == {20000}


def test_nodes_own_port_range_wins():
    on = clusters.cluster(clusters.node("n1", port_range=(31000, 31010)))
    assert placement(on, clusters.model("m")).slots[0].http_port == 31000


def test_pool_of_one_node_is_named_for_its_fabric_and_its_cards():
    model = clusters.model("m", clusters.gpu_profile())
    lone = clusters.cluster(clusters.node("n1", gpus=1))
    on_fabric = clusters.cluster(clusters.node("n1", gpus=1, fabrics=["ib-a"]))
    cpu = clusters.cluster(clusters.node("n1"))
    assert placement(lone, model).pool == "local/h100-80g"
    assert placement(on_fabric, model).pool == "ib-a/h100-80g"
    assert placement(on_fabric, model).slots[0].hcas == ()
    assert placement(cpu, clusters.model("m")).pool == "local/cpu"


def linked(groups, count=8):
    peers = {i: tuple(j for j in group if j != i) for group in groups for i in group}
    return [clusters.gpu(i, nvlink_peers=peers.get(i, ())) for i in range(count)]


@pytest.mark.parametrize(
    ("groups", "free", "count", "expected"),
    [
        ([], range(8), 2, (0, 1)),
        ([], [5, 3, 7], 2, (3, 5)),
        ([(0, 1, 2, 3), (4, 5, 6, 7)], range(8), 4, (0, 1, 2, 3)),
        ([(0, 1, 2, 3), (4, 5, 6, 7)], [0, 1, 3, 4, 5], 2, (4, 5)),
        ([(0, 1, 2, 3), (4, 5, 6, 7)], [0, 1, 4, 5], 3, (0, 1, 4)),
        ([(0, 4), (1, 5)], range(8), 2, (0, 4)),
        ([(0, 1), (1, 2)], [0, 2, 3], 2, (0, 2)),
    ],
    ids=[
        "unknown-topology",
        "unknown-takes-the-lowest",
        "whole-domain",
        "smallest-that-fits",
        "none-fits",
        "links-over-numbering",
        "linked-over-a-taken-card",
    ],
)
def test_cards_share_one_link_domain_where_that_is_known(groups, free, count, expected):
    gpus = linked(groups)
    chosen = cards.choose(gpus=gpus, free=[gpus[i] for i in free], count=count)
    assert chosen == expected


def test_ports_are_the_lowest_free_ones():
    assert tcp_ports.lowest_free((5, 8), taken={5, 7}, how_many=2) == (6, 8)
    assert tcp_ports.lowest_free((5, 8), taken={5, 7}, how_many=3) == (6, 8)


def test_order_of_nodes_does_not_matter():
    nodes = [clusters.node(f"n{i}", gpus=i % 4 + 1, fabrics=["ib"]) for i in range(9)]
    model = clusters.model("m", clusters.wide_profile(gpus_per_node=2))
    forward = placement(clusters.cluster(*nodes), model)
    backward = placement(clusters.cluster(*reversed(nodes)), model)
    assert forward == backward
    assert replace(forward, fabric="ib") == forward
