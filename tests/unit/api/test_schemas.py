"""An answer of the API shows every field of its view, by the same name."""

from __future__ import annotations

import dataclasses

import pytest

from llmgw.api.schemas import log, model, node, placement, replica, status
from llmgw.domain import catalog, nodes, replicas, views

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
    (placement.GateOut, views.GateView),
    (placement.NodeVerdictOut, views.NodeVerdict),
    (placement.ProfileVerdictOut, views.ProfileVerdict),
    (placement.ChosenShardOut, views.ChosenShard),
    (placement.ChosenPlacementOut, views.ChosenPlacement),
    (placement.PlacementOut, views.PlacementView),
    (status.ControlOut, views.ControlView),
    (status.GatewayOut, views.GatewayView),
    (status.ClassTotalsOut, views.ClassTotals),
    (status.FabricTotalsOut, views.FabricTotals),
    (status.UnplacedOut, views.Unplaced),
    (status.IdleReplicaOut, views.IdleReplica),
    (status.StatusOut, views.StatusView),
    (log.LogTailOut, views.LogTail),
]


@pytest.mark.parametrize(("schema", "view"), PAIRS, ids=lambda p: p.__name__)
def test_answer_shows_every_field_of_its_view(schema, view):
    assert {f.name for f in dataclasses.fields(view)} <= schema.model_fields.keys()
