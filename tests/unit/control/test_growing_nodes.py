"""Nodes that come to qualify, or join later: through the live loop, as their agents tell it."""

from __future__ import annotations

from collections import Counter

import pytest

from llmgw.domain.nodes import HeartbeatFacts, LocalWeights, Storage
from llmgw.domain.views import ModelStatus
from tests.fakes import clusters
from tests.fakes.reconciled import Stage

GB = 1024**3


def disk(free_gb):
    return (Storage(path="/w", free_bytes=free_gb * GB, total_bytes=900 * GB),)


GROWTHS = [
    pytest.param(
        {"min_memory_gb": 4},
        {"memory_total_mb": 2048},
        HeartbeatFacts(memory_total_mb=8192),
        id="memory",
    ),
    pytest.param(
        {"engine": "llamacpp"},
        {"engine_versions": {}},
        HeartbeatFacts(engine_versions={"llamacpp": "b1"}),
        id="engine",
    ),
    pytest.param(
        {"min_disk_gb": 20},
        {"storage": disk(1)},
        HeartbeatFacts(weights=(LocalWeights(path="/weights/m.gguf", size_bytes=9),)),
        id="weights",
    ),
]


@pytest.mark.parametrize(("needs", "before", "beat"), GROWTHS)
async def test_a_node_that_comes_to_qualify_is_used_without_a_restart_and_it_is_logged(
    needs, before, beat, control_log
):
    model = clusters.model("m", clusters.profile(**needs))
    async with Stage(model, interval_s=60.0).running() as stage:
        stage.register("n1", **before)
        await stage.until(lambda: stage.reconciler.models()[0].status is ModelStatus.UNPLACED)
        assert stage.reconciler.heartbeat("n1", beat)
        await stage.until(lambda: stage.dispatcher.orders)
    (told,) = [keys for event, keys in control_log if event == "node_changed"]
    assert told["node"] == "n1"


async def test_space_that_became_free_is_seen_with_the_next_pass():
    model = clusters.model("m", clusters.profile(min_disk_gb=20))
    async with Stage(model).running() as stage:
        stage.register("n1", storage=disk(1))
        await stage.until(lambda: stage.reconciler.models()[0].status is ModelStatus.UNPLACED)
        assert stage.dispatcher.taken() == []
        stage.reconciler.heartbeat("n1", HeartbeatFacts(storage=disk(30)))
        await stage.until(lambda: stage.dispatcher.orders)
        assert stage.dispatcher.taken() == [("start", "n1", f"{stage.replica().replica_id}.0")]


async def test_processor_replicas_spread_over_passes_and_none_moves_to_a_node_that_joins_later():
    async with Stage(clusters.model("m", min=6), expected=("n1", "n2")).running() as stage:
        for number in (1, 2):
            stage.register(f"n{number}", mgmt_addr=f"10.0.0.{number}")
        await stage.until(lambda: stage.obey() or len(stage.urls()) == 6)
        nodes = Counter(view.shards[0].node_id for view in stage.reconciler.replicas())
        assert nodes == {"n1": 3, "n2": 3}
        stage.register("n3", mgmt_addr="10.0.0.3")
        await stage.some_passes()
        assert stage.dispatcher.taken() == []


async def test_ids_of_two_lives_of_a_control_plane_differ():
    """A counter would give the first replica of each life the same id."""
    ids = set()
    for _ in range(3):
        async with Stage(clusters.model("m")).running() as stage:
            stage.register("n1")
            await stage.until(lambda: stage.dispatcher.orders)
            ids.add(stage.replica().replica_id)
    assert len(ids) == 3
