"""The checks of a trial find what they look for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.reconciler import deciding, effects
from llmgw.domain.actions import Decision
from llmgw.domain.nodes import Liveness
from llmgw.domain.replicas import ShardState
from llmgw.simulator.trial_checks import Checks, doubles, has_room
from tests.fakes import clusters

LLAMA = clusters.model("llama", clusters.gpu_profile("p", tp=2), min=1)


def one_node(*replicas, **facts):
    return clusters.cluster(clusters.node("n1", gpus=2, **facts), replicas=replicas)


def replica(name, *, gpus, port):
    shard = clusters.shard(name, node_id="n1", gpu_indices=gpus, http_port=port)
    return clusters.replica(name, shard, of="llama", profile="p")


def test_a_card_and_a_port_that_two_hold_are_found():
    found = list(
        doubles(
            one_node(
                replica("a-00000001", gpus=(0,), port=20000),
                replica("b-00000001", gpus=(0,), port=20000),
            )
        )
    )
    assert found == [
        "card 0 of n1: a-00000001 and b-00000001",
        "port 20000 of n1: a-00000001 and b-00000001",
    ]


def test_who_holds_different_cards_is_left_in_peace():
    cluster = one_node(
        replica("a-00000001", gpus=(0,), port=20000), replica("b-00000001", gpus=(1,), port=20001)
    )
    assert list(doubles(cluster)) == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"liveness": Liveness.LOST}, id="lost"),
        pytest.param({"is_cordoned": True}, id="cordoned"),
        pytest.param({"is_connected": False}, id="no stream"),
    ],
)
def test_a_node_that_takes_nothing_has_no_room(change):
    cluster = one_node()
    assert has_room(cluster, LLAMA)
    nodes = {"n1": replace(cluster.nodes["n1"], **change)}
    assert not has_room(replace(cluster, nodes=nodes), LLAMA)


def test_held_cards_are_no_room():
    assert not has_room(one_node(replica("a-00000001", gpus=(0,), port=20000)), LLAMA)


def test_a_model_that_waits_where_there_is_room_is_found():
    before = clusters.snapshot(LLAMA, on=one_node())
    before = replace(before, now=1000.0, missing_since={"llama": 0.0})
    checks = Checks()
    checks.look(before, Decision(refusals={"llama": "no such card"}), before.cluster)
    assert checks.broken == 1
    assert "there is room for llama, and yet: no such card" in checks.sentences[0]


def test_a_decision_that_places_what_it_can_breaks_nothing():
    before = clusters.snapshot(LLAMA, on=one_node())
    decision, checks = deciding.decide(before), Checks()
    checks.look(before, decision, before.cluster)
    assert decision.actions
    assert checks.broken == 0


def test_a_wait_that_the_pass_itself_began_is_no_want_of_room():
    dead = clusters.shard("a-00000001", node_id="n1", gpu_indices=(0, 1), state=ShardState.FAILED)
    failed = clusters.replica("a-00000001", dead, of="llama", profile="p")
    before = clusters.snapshot(LLAMA, on=one_node(failed), missing_since={"llama": 0.0})
    decision = deciding.decide(before)
    after = before.cluster
    for action in decision.actions:
        after = effects.after(after, action, now=before.now)
    assert after.failures["llama"].until_at > before.now
    assert has_room(after, LLAMA)
    checks = Checks()
    checks.look(before, decision, after)
    assert checks.sentences == []
    checks = Checks()
    checks.look(replace(before, now=before.now + 3600.0), Decision(), after)
    assert "there is room for llama" in checks.sentences[0]


def test_a_mistake_of_ours_is_one_of_the_trial():
    checks = Checks()
    before = clusters.snapshot(on=one_node())
    checks.look(before, Decision(faults=(ValueError("bad"),)), before.cluster)
    assert checks.sentences == [f"at {before.now:.0f} s: a mistake of ours: ValueError('bad')"]
