"""An answer of the API shows every field of its view, by the same name."""

from __future__ import annotations

import dataclasses

import pytest

from llmgw.api.schemas import log, model, node, placement, replica, status
from llmgw.domain import catalog, nodes, placement_views, replicas, status_views, views

PAIRS = [
    (node.GpuOut, views.GpuView),
    (node.FabricOut, nodes.Fabric),
    (node.StorageOut, nodes.Storage),
    (node.WeightsOut, nodes.LocalWeights),
    (node.HostOut, nodes.Host),
    (node.NodeOut, views.NodeView),
    (replica.FetchOut, replicas.FetchProgress),
    (replica.ShardOut, views.ShardView),
    (replica.ReplicaOut, views.ReplicaView),
    (model.ScalingOut, catalog.Scaling),
    (model.FailureOut, views.FailureView),
    (model.ModelOut, views.ModelView),
    (placement.GateOut, placement_views.GateView),
    (placement.NodeVerdictOut, placement_views.NodeVerdict),
    (placement.ProfileVerdictOut, placement_views.ProfileVerdict),
    (placement.ChosenShardOut, placement_views.ChosenShard),
    (placement.ChosenPlacementOut, placement_views.ChosenPlacement),
    (placement.PlacementOut, placement_views.PlacementView),
    (status.ControlOut, status_views.ControlView),
    (status.GatewayOut, status_views.GatewayView),
    (status.ClassTotalsOut, status_views.ClassTotals),
    (status.FabricTotalsOut, status_views.FabricTotals),
    (status.UnplacedOut, status_views.Unplaced),
    (status.IdleReplicaOut, status_views.IdleReplica),
    (status.StatusOut, status_views.StatusView),
    (log.LogTailOut, views.LogTail),
]


@pytest.mark.parametrize(("schema", "view"), PAIRS, ids=lambda p: p.__name__)
def test_answer_shows_every_field_of_its_view(schema, view):
    assert {f.name for f in dataclasses.fields(view)} <= schema.model_fields.keys()
