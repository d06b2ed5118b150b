"""The status page is a sum over the tables."""

from __future__ import annotations

import dataclasses

from llmgw.domain import summaries
from llmgw.domain.nodes import Fabric
from llmgw.domain.status_views import ClassTotals, FabricTotals, Unplaced
from llmgw.domain.views import GpuUse, GpuView, NodeView
from tests.fakes.fleet import CONTROL, FETCHING_REPLICA, GPU_NODE, READY_REPLICA, FakeFleet


def test_counts_equal_those_of_the_tables():
    page = FakeFleet().status()
    assert page.nodes_by_state == {"ready": 1, "unreachable": 1}
    assert page.models_by_status == {
        "loading": 1, "off": 1, "on_demand": 1, "ready": 1, "unplaced": 1,
    }  # fmt: skip
    assert page.replicas_by_state == {"ready": 1, "starting": 1}
    assert page.gpu_classes == (ClassTotals(gpu_class="h100-80g", used=1, free=1, unhealthy=1),)


def test_unhealthy_card_is_neither_free_nor_used():
    [totals] = summarise(nodes=[GPU_NODE]).gpu_classes
    assert totals.used + totals.free + totals.unhealthy == len(GPU_NODE.gpus)


def test_model_with_a_start_under_way_is_not_missing():
    assert FakeFleet().status().unplaced == (
        Unplaced(model="huge", reason="no node has 8 free cards of class h100-80g"),
    )


def test_only_a_ready_node_with_every_card_free_is_wholly_free():
    free = node("a", use=GpuUse.FREE)
    nodes = [
        free,
        node("b", use=GpuUse.USED),
        dataclasses.replace(free, node_id="c", state="cordoned"),
        NodeView(node_id="d", state="ready", last_seen_s=1, fabrics=free.fabrics),
    ]
    assert summarise(nodes=nodes).fabrics == (
        FabricTotals(fabric="ib-a", nodes=4, whole_free_nodes=1),
    )


def test_unknown_use_and_a_recent_one_are_not_idle():
    unknown = dataclasses.replace(READY_REPLICA, replica_id="u", idle_s=None)
    recent = dataclasses.replace(READY_REPLICA, replica_id="r", idle_s=3.0)
    longer = dataclasses.replace(READY_REPLICA, replica_id="l", idle_s=400.0)
    page = summarise(replicas=[unknown, recent, READY_REPLICA, longer, FETCHING_REPLICA])
    assert [i.replica_id for i in page.idle] == ["l", READY_REPLICA.replica_id]


def node(node_id: str, *, use: GpuUse) -> NodeView:
    return NodeView(
        node_id=node_id,
        state="ready",
        last_seen_s=1.0,
        gpus=(GpuView(index=0, gpu_class="h100-80g", use=use),),
        fabrics=(Fabric(name="ib-a", hcas=("mlx5_0",)),),
    )


def summarise(*, nodes=(), replicas=()):
    return summaries.summarise(control=CONTROL, nodes=nodes, models=(), replicas=replicas)
