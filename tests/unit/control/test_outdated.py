"""What agents and operators say while a pass decides is never overrun by what it decided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.inventory import fleet
from llmgw.control.leadership.elector import SoleLeader
from llmgw.control.reconciler import effects
from llmgw.control.reconciler.deciding import decide
from llmgw.control.reconciler.outdated import Outdated
from llmgw.domain.actions import Drain, ExpireNode, LoseShards, MarkFailed, Place
from llmgw.domain.nodes import HeartbeatFacts, NodeTarget
from llmgw.domain.replicas import ReplicaState, ShardState
from tests.fakes import clusters
from tests.fakes.clusters import NOW
from tests.fakes.reconciled import Stage


def kinds(actions):
    return [type(action) for action in actions]


def carried_out(snapshot, found):
    """What is done of a decision, and the cluster after it."""
    outdated, done = Outdated(seen=snapshot.cluster, found=found), []
    for action in decide(snapshot).actions:
        if not outdated.covers(action, found):
            found = effects.after(found, action, now=snapshot.now)
            done.append(action)
    return done, found


def on_two_nodes(*replicas, silent=()):
    nodes = [
        replace(clusters.node(n, mgmt_addr=f"10.0.0.{i}"), last_seen_at=NOW - 61 * (n in silent))
        for i, n in enumerate(("n1", "n2"), start=1)
    ]
    return clusters.cluster(*nodes, replicas=replicas)


def starting(replica_id="m-1", *, since=0.0):
    return clusters.replica(
        replica_id,
        clusters.shard(replica_id, state=ShardState.LOADING),
        now=NOW - since,
    )


def test_without_news_all_is_done():
    snapshot = clusters.snapshot(clusters.model("m"), on=on_two_nodes())
    assert kinds(carried_out(snapshot, snapshot.cluster)[0]) == [Place]


def test_a_node_that_speaks_before_it_is_given_up_keeps_what_it_runs():
    on = on_two_nodes(clusters.replica(), silent=["n1"])
    snapshot = clusters.snapshot(clusters.model("m"), on=on)
    assert kinds(decide(snapshot).actions)[:3] == [ExpireNode, LoseShards, MarkFailed]
    spoken = replace(on, nodes={**on.nodes, "n1": replace(on.nodes["n1"], last_seen_at=NOW)})
    done, after = carried_out(snapshot, spoken)
    assert done == []
    assert after.replicas["m-1"].state is ReplicaState.READY


def test_a_start_that_comes_up_at_its_last_moment_is_not_given_up():
    on = on_two_nodes(starting(since=1000.0))
    snapshot = clusters.snapshot(clusters.model("m"), on=on)
    assert MarkFailed in kinds(decide(snapshot).actions)
    up = clusters.reach(on, ShardState.READY)
    assert carried_out(snapshot, up) == ([], up)


def test_what_is_too_many_stays_when_another_one_dies_meanwhile():
    replicas = [
        clusters.replica(f"m-{i}", clusters.shard(f"m-{i}", http_port=20000 + i)) for i in range(3)
    ]
    on = on_two_nodes(*replicas)
    snapshot = clusters.snapshot(clusters.model("m", min=2), on=on)
    (drain,) = decide(snapshot).actions
    assert isinstance(drain, Drain)
    dead = next(s for r in replicas for s in r.shards if r.replica_id != drain.replica_id)
    one_less = clusters.told(on, clusters.report(dead, state=ShardState.FAILED))
    assert carried_out(snapshot, one_less)[0] == []


@pytest.mark.parametrize("target", [NodeTarget.CORDONED, NodeTarget.DRAINING])
def test_nothing_is_placed_on_a_node_that_an_operator_took_meanwhile(target):
    snapshot = clusters.snapshot(clusters.model("m"), on=on_two_nodes())
    (place,) = decide(snapshot).actions
    node_id = place.replica.shards[0].node_id
    nodes = snapshot.cluster.nodes
    taken = fleet.flagged(nodes[node_id], target=target, reason="")
    found = replace(snapshot.cluster, nodes={**nodes, node_id: taken})
    assert carried_out(snapshot, found)[0] == []


def test_nothing_is_placed_beside_what_was_found_to_run_meanwhile():
    snapshot = clusters.snapshot(clusters.model("m"), on=on_two_nodes())
    (place,) = decide(snapshot).actions
    other = clusters.replica(
        "x-1", clusters.shard("x-1", node_id=place.replica.shards[0].node_id), of="x"
    )
    found = replace(snapshot.cluster, replicas={"x-1": other})
    assert carried_out(snapshot, found)[0] == []


class Interrupted(SoleLeader):
    """Leads, and lets something happen when a pass has decided and asks whether it still does."""

    def __init__(self):
        self.meanwhile = lambda: None
        self.asked = 0

    def is_leader(self):
        self.asked += 1
        if self.asked % 2 == 0:
            self.meanwhile()
        return True


async def test_a_node_that_speaks_during_a_long_pass_keeps_what_it_runs():
    """Through the live loop, beside which the pass decides."""
    leadership = Interrupted()
    stage = Stage(clusters.model("m"), leadership=leadership, thread_above_s=-1.0)
    stage.register("n1")
    await stage.reconciler._pass()
    stage.obey()
    for _ in range(13):
        stage.clock.advance(4.9)
        stage.reconciler._pass_at = stage.clock.monotonic()
    leadership.asked = 0
    leadership.meanwhile = lambda: stage.reconciler.heartbeat("n1", HeartbeatFacts())
    await stage.reconciler._pass()
    assert leadership.asked == 2
    assert stage.dispatcher.taken() == []
    assert stage.replica().state is ReplicaState.READY
    leadership.meanwhile = lambda: None
    stage.clock.advance(61)
    stage.reconciler._pass_at = stage.clock.monotonic()
    await stage.reconciler._pass()
    assert [r.state for r in stage.reconciler.replicas()] != [ReplicaState.READY]
