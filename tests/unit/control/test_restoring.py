"""A leader whose lease ran out starts anew what failed, where it failed, and does nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.leadership.elector import SoleLeader
from llmgw.control.reconciler import deciding, effects, gates
from llmgw.domain.actions import MarkFailed, Place, Release
from llmgw.domain.nodes import Liveness, NodeTarget
from llmgw.domain.replicas import ReplicaState, ShardState
from llmgw.domain.snapshots import Bounds
from llmgw.errors import Standby
from tests.fakes import clusters
from tests.fakes.clusters import NOW
from tests.fakes.reconciled import Stage

WAITED = NOW + 11.0
FAILED = {"state": ShardState.FAILED, "error": "exit code 1"}


def lapsed(*models, on, now=NOW, **others):
    return clusters.snapshot(*models, on=on, now=now, is_leader=False, is_lapsed=True, **others)


def decide(snapshot):
    return deciding.decide(snapshot).actions


def ran(snapshot):
    """The cluster after what was decided, and how often it was decided until nothing was left."""
    passes = 0
    while actions := decide(snapshot):
        cluster = snapshot.cluster
        for action in actions:
            cluster = effects.after(cluster, action, now=snapshot.now)
        snapshot = replace(snapshot, cluster=cluster, seed=snapshot.seed + 1)
        passes += 1
        assert passes < 10
    return snapshot.cluster


def fleet(*shards, nodes=("n1", "n2"), **others):
    """Nodes, and on them a replica of these shards."""
    held = clusters.replica("m-1", *shards, **others)
    return clusters.cluster(*map(clusters.node, nodes), replicas=[held])


def failed_on(node_id="n1", **others):
    return fleet(clusters.shard("m-1", node_id=node_id, **{**FAILED, **others}))


def test_what_failed_is_noted_and_started_anew_on_its_node_after_its_wait():
    model = clusters.model("m")
    noted = ran(lapsed(model, on=failed_on("n2")))
    assert [r.state for r in noted.replicas.values()] == [ReplicaState.FAILED]
    assert noted.failures["m"].count == 1
    over, place = decide(lapsed(model, on=noted, now=WAITED))
    assert (over.replica_id, [s.node_id for s in place.replica.shards]) == ("m-1", ["n2"])
    assert place.replica.replica_id != "m-1"
    assert len(ran(lapsed(model, on=noted, now=WAITED)).replicas) == 1


def test_one_that_had_proven_itself_is_started_anew_at_once():
    shard = clusters.shard("m-1", node_id="n2", **FAILED)
    on = fleet(shard, ready_at=NOW - 700.0)
    kinds = [type(action) for action in decide(lapsed(clusters.model("m"), on=on))]
    assert kinds == [MarkFailed, Release, Place]


@pytest.mark.parametrize(
    "on",
    [
        pytest.param(clusters.cluster(clusters.node("n1")), id="a wish without a replica"),
        pytest.param(failed_on(is_gone=True), id="what went with its agent"),
        pytest.param(fleet(clusters.shard("m-1", state=ShardState.STOPPED)), id="what was stopped"),
        pytest.param(fleet(clusters.shard("m-1")), id="what serves"),
        pytest.param(
            fleet(clusters.shard("m-1", **FAILED), clusters.shard("m-1", node_id="n2", rank=1)),
            id="a replica over two nodes",
        ),
        pytest.param(
            fleet(clusters.shard("m-1", node_id="n3", **FAILED)), id="on a node that is not there"
        ),
    ],
)
def test_nothing_else_is_done(on):
    model = clusters.model("m", min=1)
    after = ran(lapsed(model, on=on, now=WAITED))
    assert after.replicas.keys() == on.replicas.keys()


def test_a_node_that_is_not_connected_is_told_nothing():
    on = failed_on("n1")
    cut = replace(on.nodes["n1"], is_connected=False)
    assert decide(lapsed(clusters.model("m"), on=replace(on, nodes={**on.nodes, "n1": cut}))) == ()


def test_silent_nodes_are_not_given_up_and_nothing_moves_off_a_draining_one():
    silent = replace(clusters.node("n1"), last_seen_at=NOW - 500.0)
    drains = clusters.node("n2", flags={"is_draining": True})
    held = clusters.replica("m-1", clusters.shard("m-1", node_id="n2"))
    on = clusters.cluster(silent, drains, clusters.node("n3"), replicas=[held])
    assert decide(lapsed(clusters.model("m"), on=on)) == ()
    assert on.nodes["n1"].liveness is Liveness.READY


def test_what_is_not_wanted_any_more_or_may_not_be_there_is_not_started():
    noted = ran(lapsed(clusters.model("m"), on=failed_on("n1")))
    assert decide(lapsed(clusters.model("other"), on=noted, now=WAITED)) == ()
    flagged = {**noted.nodes, "n1": replace(noted.nodes["n1"], is_cordoned=True)}
    cordoned = replace(noted, nodes=flagged)
    assert decide(lapsed(clusters.model("m"), on=cordoned, now=WAITED)) == ()
    assert decide(lapsed(clusters.model("m"), on=noted, now=WAITED, settled=False)) == ()
    second = clusters.replica("m-2", clusters.shard("m-2", node_id="n2", http_port=20001))
    enough = replace(noted, replicas={**noted.replicas, "m-2": second})
    assert decide(lapsed(clusters.model("m"), on=enough, now=WAITED)) == ()


def test_a_standby_starts_nothing():
    on = failed_on("n1")
    standby = clusters.snapshot(clusters.model("m"), on=on, now=WAITED, is_leader=False)
    assert decide(standby) == ()


def test_the_explanation_says_that_the_lease_has_run_out():
    (shut, *_) = gates.of(clusters.model("m"), lapsed(on=clusters.cluster()), running=0)
    assert "its lease has run out" in shut.detail


class Lapsing(SoleLeader):
    """Leads until its store does not answer."""

    has_lapsed = False

    def is_leader(self):
        return not self.has_lapsed

    def is_lapsed(self):
        return self.has_lapsed


async def test_a_crash_while_the_store_is_away_is_followed_by_a_start_on_the_same_node():
    stage = Stage(
        clusters.model("m", min=2),
        leadership=Lapsing(),
        expected=("n1", "n2"),
        bounds=Bounds(base_backoff_s=1.0),
    )
    async with stage.running():
        for name in ("n1", "n2"):
            stage.register(name)
        await stage.until(lambda: stage.obey() or len(stage.urls()) == 2)
        stage.leadership.has_lapsed = True
        victim = stage.reconciler.replicas()[0]
        node_id = victim.shards[0].node_id
        stage.report(victim, ShardState.FAILED, error="exit code 1")
        await stage.until(lambda: stage.reconciler.models()[0].last_failure is not None)
        assert stage.dispatcher.taken() == []
        stage.clock.advance(2)
        await stage.until(lambda: stage.obey() or len(stage.urls()) == 2)
        views = {v.replica_id: v.shards[0].node_id for v in stage.reconciler.replicas()}
        assert victim.replica_id not in views
        assert sorted(views.values()) == ["n1", "n2"]
        assert node_id in views.values()


async def test_a_word_is_not_heard_while_the_lease_has_run_out():
    stage = Stage(clusters.model("m"), leadership=Lapsing())
    stage.register("n1")
    stage.leadership.has_lapsed = True
    with pytest.raises(Standby):
        stage.say("n1", NodeTarget.CORDONED)
