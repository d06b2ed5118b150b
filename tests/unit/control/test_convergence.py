"""Whatever breaks in between: in the end the wanted runs, nothing else does, nothing leaks."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.control.reconciler import wanting
from llmgw.domain import catalog_rules
from llmgw.domain.replicas import ReplicaState, ShardState
from tests.fakes import clusters
from tests.fakes.random_clusters import Dice
from tests.fakes.small_world import SmallWorld

TROUBLES = 25


def world(dice):
    facts = [
        clusters.facts(f"n{i}", gpus=dice.one(0, 2, 4), fabrics=["ib"] if dice.often(0.7) else [])
        for i in range(1 + dice.upto(3))
    ]
    models = [
        clusters.model(
            f"m{i}",
            dice.one(
                clusters.profile(),
                clusters.gpu_profile(tp=dice.one(1, 2)),
                clusters.wide_profile(gpus_per_node=2),
            ),
            min=1 + dice.upto(2),
        )
        for i in range(1 + dice.upto(2))
    ]
    return SmallWorld(facts, models), models


def trouble(dice, there, models):
    node_id = dice.one(*there.facts)
    engines = list(there.engines[node_id])
    match dice.upto(11):
        case 0:
            there.start_control()
        case 1:
            there.disconnect(node_id)
        case 2:
            there.crash(node_id)
        case 3 if engines:
            there.kill(node_id, dice.one(*engines))
        case 4:
            kept = [m for m in models if dice.often(0.7)]
            there.catalog.swap(catalog_rules.build(kept))
        case 5:
            there.run_pass(cut=dice.upto(2))
        case 6:
            there.repeat(dice.upto(10**6))
        case 7:
            there.refusing ^= {node_id}
        case 8:
            there.connect(node_id)
            there.connect(node_id)
        case _:
            there.connect(node_id)


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_whatever_happens_the_end_is_what_is_wanted_and_nothing_leaks(seed):
    dice = Dice(seed)
    there, models = world(dice)
    for _ in range(TROUBLES):
        trouble(dice, there, models)
        there.step(dice.one(1, 5, 20, 70))
        there.run_pass()
        assert_nothing_is_held_twice(there)

    there.catalog.swap(catalog_rules.build(models))
    there.refusing.clear()
    for node_id in there.facts:
        there.connect(node_id)
    # Long enough for a half whose other half never comes to be given up, and for its successor.
    for _ in range(50):
        there.step(25)
        there.run_pass()

    cluster = there.records.cluster
    assert cluster.strays == {}
    assert all(r.state is ReplicaState.READY for r in cluster.replicas.values())
    believed = {(s.node_id, s.shard_id) for r in cluster.replicas.values() for s in r.shards}
    real = {(n, s) for n, engines in there.engines.items() for s in engines}
    assert believed == real
    have = wanting.counting(cluster.replicas.values())
    for model in models:
        running = len(have.get(model.name, ()))
        assert running == model.scaling.min or model.name in there.refusals
        assert running <= model.scaling.min


def assert_nothing_is_held_twice(there):
    """By the book: two wholly known replicas never hold one card or port of a node."""
    cards, ports = Counter(), Counter()
    for replica in there.records.cluster.replicas.values():
        if replica.failed_at is None:
            for shard in replica.shards:
                if shard.state is not ShardState.FAILED:
                    cards.update((shard.node_id, i) for i in shard.gpu_indices)
                    ports[shard.node_id, shard.http_port] += 1
    assert not [card for card, count in cards.items() if count > 1]
    assert not [port for port, count in ports.items() if count > 1]
