"""What a pass decides is what comes of it, over random clusters in the middle of things."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.control.inventory import claims
from llmgw.control.placement import planning
from llmgw.control.reconciler import effects, explaining, wanting
from llmgw.control.reconciler.applying import Applier, is_still_right
from llmgw.control.reconciler.deciding import decide
from llmgw.domain.actions import Drain, Evict, Move, Place
from llmgw.domain.replicas import ReplicaState
from tests.fakes import stirred
from tests.fakes.dispatching import FakeDispatcher
from tests.fakes.random_clusters import Dice, first_broken

MANY = settings(max_examples=1000, deadline=None, derandomize=True, database=None)
SEEDS = st.integers(min_value=0, max_value=2**32)
VERY_MANY = 20_000
_MOST_PASSES = 60


def found(seed):
    return stirred.snapshot(Dice(seed))


def steps(snapshot):
    """Each action of a pass, with the cluster before it and after it."""
    cluster = snapshot.cluster
    decision = decide(snapshot)
    assert not decision.faults, decision.faults
    for action in decision.actions:
        after = effects.after(cluster, action, now=snapshot.now)
        yield cluster, action, after
        cluster = after


@MANY
@given(SEEDS)
def test_an_applied_plan_is_the_plan(seed):
    snapshot = found(seed)
    dispatcher = FakeDispatcher()
    dispatcher.away = {n for n, node in snapshot.cluster.nodes.items() if not node.is_connected}
    applied = snapshot.cluster
    for before, action, planned in steps(snapshot):
        assert is_still_right(applied, action, now=snapshot.now)
        assert applied == before
        applied = Applier(dispatcher).apply(applied, action, now=snapshot.now)
        assert applied == planned


@MANY
@given(SEEDS)
def test_what_is_explained_is_what_is_placed(seed):
    snapshot = found(seed)
    for before, action, _ in steps(snapshot):
        if not isinstance(action, Place):
            continue
        here = replace(snapshot, cluster=before)
        view = explaining.explain(action.replica.model, here)
        assert all(gate.is_open for gate in view.gates)
        assert view.chosen is not None
        assert view.chosen.profile == action.replica.profile
        assert [(s.node_id, s.rank, s.gpu_indices, s.http_port) for s in view.chosen.shards] == [
            (s.node_id, s.rank, s.gpu_indices, s.http_port) for s in action.replica.shards
        ]


@MANY
@given(SEEDS)
def test_one_snapshot_has_one_answer(seed):
    snapshot = found(seed)
    assert decide(snapshot) == decide(found(seed))


@MANY
@given(SEEDS)
def test_no_pass_gives_a_card_a_port_or_memory_twice(seed):
    snapshot = found(seed)
    for before, action, after in steps(snapshot):
        if isinstance(action, Place):
            assert not twice(after, now=snapshot.now) - twice(before, now=snapshot.now)
            assert not too_much(after, now=snapshot.now) - too_much(before, now=snapshot.now)


def twice(cluster, *, now):
    """Cards and ports that two hold; what is released is held until that is over."""
    held = Counter()
    for replica in cluster.replicas.values():
        for shard in replica.shards:
            address = cluster.nodes[shard.node_id].facts.mgmt_addr
            held.update((shard.node_id, "card", index) for index in shard.gpu_indices)
            held.update((address, "port", p) for p in (shard.http_port, shard.leader_port) if p)
    for stray in cluster.strays.values():
        cards = stray.gpu_indices if stray.cards_until_at > now else ()
        held.update((stray.node_id, "card", index) for index in cards)
        if stray.http_port and stray.node_id in cluster.nodes:
            held[cluster.nodes[stray.node_id].facts.mgmt_addr, "port", stray.http_port] += 1
    return {what for what, count in held.items() if count > 1}


def too_much(cluster, *, now):
    """Nodes that have promised more memory than they have."""
    book = claims.by_node(cluster, now=now)
    return {
        node_id
        for node_id, node in cluster.nodes.items()
        if node.facts.memory_total_mb is not None
        and book[node_id].memory_mb > node.facts.memory_total_mb
    }


@MANY
@given(SEEDS)
def test_passes_of_one_instant_come_to_rest(seed):
    snapshot = found(seed)
    for turn in range(_MOST_PASSES):
        decision = decide(replace(snapshot, seed=turn))
        assert not decision.faults, decision.faults
        if not decision.actions:
            return
        cluster = snapshot.cluster
        for action in decision.actions:
            cluster = effects.after(cluster, action, now=snapshot.now)
        snapshot = replace(snapshot, cluster=cluster)
    pytest.fail(f"after {_MOST_PASSES} passes it still wants {decision.actions}")


@MANY
@given(SEEDS)
def test_a_model_that_lacks_replicas_has_a_reason_or_a_closed_gate(seed):
    snapshot = found(seed)
    decision = decide(snapshot)
    end = snapshot.cluster
    for action in decision.actions:
        end = effects.after(end, action, now=snapshot.now)
    placed = {a.replica.model for a in decision.actions if isinstance(a, Place)}
    if placed:
        return  # one is placed a pass; the next one comes to the others
    space = planning.space(end, now=snapshot.now, bounds=snapshot.bounds)
    for name, model in snapshot.catalog.models.items():
        view = explaining.explain(name, replace(snapshot, cluster=end))
        is_held_back = any(not gate.is_open for gate in view.gates)
        outcome = planning.plan(space, model, failures=end.failures.get(name))
        assert is_held_back or name in decision.refusals or name in end.reservations
        if name in decision.refusals:
            assert outcome.placement is None
            assert decision.refusals[name]


@MANY
@given(SEEDS)
def test_nobody_is_evicted_who_serves_or_is_promised_or_has_just_come(seed):
    snapshot = found(seed)
    now, bounds = snapshot.now, snapshot.bounds
    for before, action, _ in steps(snapshot):
        if not isinstance(action, Evict):
            continue
        victim = before.replicas[action.replica_id]
        seen = snapshot.traffic.endpoints[action.replica_id]
        assert snapshot.catalog.models[victim.model].scaling.is_on_demand
        assert victim.state is ReplicaState.READY
        assert victim.want_shards == 1
        assert victim.model not in snapshot.asked | {action.reservation.model}
        assert now - victim.ready_at >= bounds.min_residency_s
        assert not seen.inflight
        known_at = seen.last_used_at or snapshot.watched_since[action.replica_id]
        assert now - known_at >= bounds.evict_idle_after_s


@MANY
@given(SEEDS)
def test_one_is_evicted_at_a_time_and_only_where_its_going_makes_room(seed):
    snapshot = found(seed)
    evictions = [(b, a) for b, a, _ in steps(snapshot) if isinstance(a, Evict)]
    assert len(evictions) <= 1
    for before, evict in evictions:
        assert not any(replica.evicted_for for replica in before.replicas.values())
        kept = evict.reservation
        victims = {*kept.victims}
        left = {r: held for r, held in before.replicas.items() if r not in victims}
        space = planning.space(
            replace(before, replicas=left),
            now=snapshot.now,
            bounds=snapshot.bounds,
            asker=kept.model,
        )
        model = snapshot.catalog.models[kept.model]
        failures = before.failures.get(kept.model)
        assert planning.plan(space, model, failures=failures).placement is not None


@MANY
@given(SEEDS)
def test_no_pass_takes_away_the_last_that_serves_of_what_is_wanted_but_after_a_grace(seed):
    """A replica that serves is drained only while as many as are wanted go on serving."""
    snapshot = found(seed)
    for before, action, after in steps(snapshot):
        replica = before.replicas.get(getattr(action, "replica_id", ""))
        if not isinstance(action, Drain) or replica.state is not ReplicaState.READY:
            continue
        model = snapshot.catalog.models.get(replica.model)
        if model is None or "no replacement came" in action.reason or "no room" in action.reason:
            continue
        left = sum(
            r.state is ReplicaState.READY and r.model == replica.model
            for r in after.replicas.values()
        )
        counting = wanting.counting(before.replicas.values()).get(replica.model, ())
        asked = wanting.wanted(model, running=0, asked=snapshot.asked)
        is_loaded = "nobody has used it" not in action.reason and len(counting) > 1
        assert left >= asked or (model.scaling.is_on_demand and not is_loaded and not asked)


@MANY
@given(SEEDS)
def test_of_one_model_no_more_are_replaced_at_a_time_than_may_be_unavailable(seed):
    snapshot = found(seed)
    begun, end = Counter(), snapshot.cluster
    for _, action, after in steps(snapshot):
        end = after
        if isinstance(action, Move):
            begun[after.replicas[action.replica_id].model] += 1
    for name in begun:
        moving = [r for r in end.replicas.values() if r.model == name and r.is_moving]
        leaving = [r for r in moving if r.drain_since_at is not None or r.failed_at is not None]
        assert len(moving) - len(leaving) <= snapshot.bounds.max_unavailable


PROMISES = (
    test_nobody_is_evicted_who_serves_or_is_promised_or_has_just_come,
    test_one_is_evicted_at_a_time_and_only_where_its_going_makes_room,
    test_no_pass_takes_away_the_last_that_serves_of_what_is_wanted_but_after_a_grace,
    test_of_one_model_no_more_are_replaced_at_a_time_than_may_be_unavailable,
    test_an_applied_plan_is_the_plan,
    test_what_is_explained_is_what_is_placed,
    test_one_snapshot_has_one_answer,
    test_no_pass_gives_a_card_a_port_or_memory_twice,
    test_passes_of_one_instant_come_to_rest,
    test_a_model_that_lacks_replicas_has_a_reason_or_a_closed_gate,
)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("promise", PROMISES, ids=lambda p: p.__name__.removeprefix("test_"))
def test_it_holds_over_very_many_clusters_too(promise):
    assert first_broken(promise, seeds=range(VERY_MANY)) is None


def test_stirred_clusters_are_of_every_kind():
    seen = Counter()
    for seed in range(600):
        snapshot = found(seed)
        decision = decide(snapshot)
        seen.update({type(action).__name__ for action in decision.actions})
        seen.update({f"replica {r.state}" for r in snapshot.cluster.replicas.values()})
        seen.update({f"node {n.state}" for n in snapshot.cluster.nodes.values()})
        seen["stray"] += bool(snapshot.cluster.strays)
        seen["blocked port"] += bool(snapshot.cluster.blocked_ports)
        seen["refusal"] += bool(decision.refusals)
        seen["many nodes"] += any(len(r.shards) > 1 for r in snapshot.cluster.replicas.values())
    wanted = {
        "Place", "Release", "StopShards", "Drain", "MarkFailed", "ExpireNode", "Move", "StopStray",
        "LoseShards", "ResendStart", "Evict", "HaltRoll", "EndRoll", "Stay",
        "replica ready", "replica starting", "replica failed",
        "replica draining", "node ready", "node lost", "node cordoned", "node draining",
        "node unreachable", "stray", "blocked port", "refusal", "many nodes",
    }  # fmt: skip
    assert {what for what in wanted if not seen[what]} == set()
