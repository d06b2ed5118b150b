"""What people are shown, and that it is what the pass acts on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.control.reconciler import explaining, gates, showing
from llmgw.control.reconciler.deciding import decide
from llmgw.domain.actions import Place
from llmgw.domain.nodes import Liveness
from llmgw.domain.replicas import ReplicaState, ShardState, Stray
from llmgw.domain.snapshots import Failures
from llmgw.domain.views import GpuUse, ModelStatus
from llmgw.errors import Unknown
from tests.fakes import clusters
from tests.fakes.clusters import NOW
from tests.fakes.random_clusters import Dice

MODEL = clusters.model("m", aliases=("em",))


def failures(model, *, until_at):
    return Failures(
        definition=model,
        count=2,
        until_at=until_at,
        failed_at=NOW - 4,
        replica_id="m-0",
        profile="cpu",
        error="boom",
        node_id="n1",
        exit_code=1,
        last_output=("line",),
    )


def node_view(*nodes, **others):
    return showing.nodes(clusters.snapshot(on=clusters.cluster(*nodes, **others), now=NOW + 3))


def test_node_is_shown_with_what_it_has_and_owes():
    held = clusters.replica("m-1", clusters.shard(gpu_indices=(0,)), memory_claim_gb=4)
    stray = Stray(node_id="n1", shard_id="x.0", http_port=1)
    (view,) = node_view(
        clusters.node("n1", gpus=2, memory_total_mb=10_000), replicas=[held], strays=[stray]
    )
    assert (view.node_id, view.state, view.last_seen_s) == ("n1", "ready", 3)
    assert (view.memory_total_mb, view.memory_claimed_mb) == (10_000, 4096)
    assert view.memory_available_mb == 5904
    assert [(g.use, g.replica_id) for g in view.gpus] == [(GpuUse.USED, "m-1"), (GpuUse.FREE, None)]
    assert (view.replica_ids, view.stray_shard_ids) == (("m-1",), ("x.0",))


def test_what_a_node_does_not_say_is_absent_and_not_zero():
    (view,) = node_view(clusters.node("n1", engine_versions={}, engines_probed=False))
    assert view.memory_total_mb is None
    assert view.memory_available_mb is None
    assert view.engine_versions is None
    (none,) = node_view(clusters.node("n1", engine_versions={}))
    assert none.engine_versions == {}


@pytest.mark.parametrize(
    ("card", "liveness", "is_held", "use"),
    [
        ({}, Liveness.READY, False, GpuUse.FREE),
        ({"problems": ("ECC",)}, Liveness.READY, False, GpuUse.UNHEALTHY),
        ({"problems": ("ECC",)}, Liveness.READY, True, GpuUse.UNHEALTHY),
        ({"memory_used_mib": 5000}, Liveness.READY, False, GpuUse.UNHEALTHY),
        ({"memory_used_mib": 5000}, Liveness.READY, True, GpuUse.USED),
        ({}, Liveness.LOST, False, GpuUse.UNHEALTHY),
        ({}, Liveness.UNREACHABLE, True, GpuUse.USED),
    ],
    ids=["free", "problem", "held-problem", "foreign", "own", "node-lost", "node-silent"],
)
def test_card_is_free_used_or_neither(card, liveness, is_held, use):
    held = clusters.replica("m-1", clusters.shard(gpu_indices=(0,)))
    node = clusters.node("n1", gpus=[clusters.gpu(0, **card)], liveness=liveness)
    (view,) = node_view(node, replicas=[held] if is_held else [])
    assert view.gpus[0].use is use
    assert bool(view.gpus[0].problems) is (use is GpuUse.UNHEALTHY)


def shown(*replicas, model=MODEL, refusals=None, failed=None, **others):
    on = clusters.cluster(clusters.node("n1"), replicas=replicas)
    on = replace(on, failures={"m": failed} if failed else {})
    snapshot = clusters.snapshot(model, on=on, **others)
    (view,) = showing.models(snapshot, refusals=refusals or {})
    return view


LOADING = clusters.replica("m-1", clusters.shard(state=ShardState.LOADING))


@pytest.mark.parametrize(
    ("what", "status", "reason"),
    [
        ({"replicas": [clusters.replica()]}, ModelStatus.READY, ""),
        ({"replicas": [LOADING]}, ModelStatus.LOADING, ""),
        ({"settled": False}, ModelStatus.LOADING, "waiting for nodes"),
        ({}, ModelStatus.LOADING, ""),
        ({"refusals": {"m": "no card"}}, ModelStatus.UNPLACED, "no card"),
        (
            {"failed": failures(MODEL, until_at=NOW + 9)},
            ModelStatus.BACKOFF,
            "next try in 9 s: boom",
        ),
        ({"model": clusters.model("m", min=0, max=1)}, ModelStatus.ON_DEMAND, ""),
        ({"model": clusters.model("m", min=0, max=0)}, ModelStatus.OFF, ""),
        ({"model": replace(MODEL, profiles=())}, ModelStatus.OFF, ""),
        ({"model": replace(MODEL, scaling=None)}, ModelStatus.OFF, ""),
    ],
    ids=[
        "ready",
        "loading",
        "settling",
        "next-pass",
        "unplaced",
        "backoff",
        "on-demand",
        "off",
        "no-profile",
        "no-scaling",
    ],
)
def test_model_has_one_word_and_a_reason_when_something_is_missing(what, status, reason):
    view = shown(*what.pop("replicas", ()), **what)
    assert view.status is status
    assert reason in view.reason
    assert bool(view.reason) is bool(reason)


def test_last_failure_stays_readable_when_its_replica_is_gone():
    view = shown(clusters.replica(), failed=failures(MODEL, until_at=NOW - 1))
    assert view.backoff_left_s is None
    assert (view.last_failure.error, view.last_failure.ago_s) == ("boom", 4)
    assert view.last_failure.last_output == ("line",)


def test_replica_is_shown_with_its_age_its_flags_and_why_it_goes():
    edited = clusters.replica("m-1", now=NOW - 60, profile_fp="v1:old")
    edited = replace(edited, drain_since_at=NOW, drain_reason="3 run and 1 are wanted")
    on = clusters.cluster(clusters.node("n1"), replicas=[edited])
    (view,) = showing.replicas(clusters.snapshot(MODEL, on=on))
    assert view.state is ReplicaState.DRAINING
    assert (view.engine, view.age_s, view.ready_s) == ("sim", 60, 60)
    assert view.is_stale_profile
    assert view.drain_reason == "3 run and 1 are wanted"
    assert view.idle_s is None
    assert view.shards[0].exit_code is None


def test_replica_of_unknown_fingerprint_is_not_stale():
    on = clusters.cluster(clusters.node("n1"), replicas=[clusters.replica(profile_fp="")])
    (view,) = showing.replicas(clusters.snapshot(MODEL, on=on))
    assert not view.is_stale_profile


def test_explanation_shows_every_gate_profile_and_node():
    model = clusters.model("m", clusters.gpu_profile(priority=9), clusters.profile())
    on = clusters.cluster(clusters.node("n1"), clusters.node("n2", flags={"is_cordoned": True}))
    view = explaining.explain("m", clusters.snapshot(model, on=on))
    assert [(g.name, g.is_open) for g in view.gates] == [
        ("leader", True),
        ("wanted", True),
        ("missing", True),
        ("settled", True),
        ("backoff", True),
        ("room", True),
        ("brake", True),
    ]
    gpu, cpu = view.profiles
    assert [(v.node_id, v.check) for v in gpu.nodes] == [("n1", "gpu_class"), ("n2", "flags")]
    assert [(v.node_id, v.is_fit) for v in cpu.nodes] == [("n1", True), ("n2", False)]
    assert (gpu.is_fit, cpu.is_fit) == (False, True)
    assert view.chosen.profile == "cpu"
    assert [s.node_id for s in view.chosen.shards] == ["n1"]
    assert not view.is_unplaced


def test_explanation_by_alias_is_the_models_and_a_typo_is_unknown():
    snapshot = clusters.snapshot(MODEL, on=clusters.cluster(clusters.node("n1")))
    assert explaining.explain("em", snapshot).model == "m"
    with pytest.raises(Unknown, match="no model 'typo'"):
        explaining.explain("typo", snapshot)


@pytest.mark.parametrize(
    ("changes", "shut", "says"),
    [
        ({"is_leader": False}, "leader", "standby"),
        ({"settled": False}, "settled", "1 node(s) registered"),
        ({"model": replace(MODEL, profiles=())}, "wanted", "no profile"),
        ({"model": clusters.model("m", min=0, max=0)}, "wanted", "off"),
        ({"running": 1}, "missing", "1 of 1"),
    ],
)
def test_gate_that_is_shut_says_why(changes, shut, says):
    model, running = changes.pop("model", MODEL), changes.pop("running", 0)
    snapshot = clusters.snapshot(model, on=clusters.cluster(clusters.node("n1")), **changes)
    found = {g.name: g for g in gates.of(model, snapshot, running=running)}
    assert not found[shut].is_open
    assert says in found[shut].detail


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_explanation_and_pass_never_disagree(seed):
    dice = Dice(seed)
    on, models = dice.cluster(), dice.models(most=1)
    on = replace(on, replicas={k: r for k, r in on.replicas.items() if r.failed_at is None})
    snapshot = clusters.snapshot(*models, clusters.model("old", min=0, max=0), on=on, seed=seed)
    # What the pass frees first is freed here as well, so that both look at the same nodes.
    decision = decide(snapshot)
    others = [a for a in decision.actions if not isinstance(a, Place)]
    freed = replace(snapshot, cluster=clusters.after(on, others))
    view = explaining.explain(models[0].name, freed)
    (placed,) = [a.replica for a in decision.actions if isinstance(a, Place)] or [None]
    assert (view.chosen is None) is (placed is None)
    if placed is not None:
        assert view.chosen.profile == placed.profile
        assert [(s.node_id, s.gpu_indices, s.http_port) for s in view.chosen.shards] == [
            (s.node_id, s.gpu_indices, s.http_port) for s in placed.shards
        ]
