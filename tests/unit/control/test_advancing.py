"""The next step of one replica, from every state that it can be in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.reconciler import advancing, effects, starting
from llmgw.control.reconciler.deciding import decide
from llmgw.domain.actions import (
    Drain,
    ExpireNode,
    LoseShards,
    MarkFailed,
    Place,
    Release,
    ResendStart,
    StopShards,
)
from llmgw.domain.nodes import Liveness
from llmgw.domain.replicas import FetchProgress, ReplicaState, ShardState
from llmgw.domain.traffic import EndpointTraffic, Traffic
from tests.fakes import clusters
from tests.fakes.clusters import NOW

GIB = 1024**3
SLOW = clusters.profile(startup_timeout_s=900.0)
MODEL = clusters.model("m", SLOW)
FINGERPRINT = SLOW.fingerprint(model=MODEL)


def placed(*, at=NOW, nodes=("n1",)):
    """A replica as it is right after its placement."""
    shards = [
        clusters.shard(
            node_id=n,
            rank=i,
            state=ShardState.PENDING,
            is_reported=False,
            ordered_at=at,
            start_orders=1,
        )
        for i, n in enumerate(nodes)
    ]
    return clusters.replica("m-1", *shards, now=at, profile_fp=FINGERPRINT)


def with_shard(replica, *, rank=0, **changes):
    shards = tuple(replace(s, **changes) if s.rank == rank else s for s in replica.shards)
    return replace(replica, shards=shards)


def step(replica, *, now=NOW, model=MODEL, nodes=("n1", "n2"), **flags):
    on = clusters.cluster(*(clusters.node(n, flags=flags) for n in nodes), replicas=[replica])
    return advancing.next_step(replica, clusters.snapshot(model, on=on, now=now))


def test_ready_replica_is_left_alone():
    assert step(clusters.replica()) is None


def test_starting_replica_is_awaited():
    assert step(placed(), now=NOW + 5) is None


def test_replica_of_a_model_that_left_the_catalog_is_drained():
    action = step(clusters.replica(), model=clusters.model("other"))
    assert isinstance(action, Drain)
    assert "its model is no longer" in action.reason


def test_start_with_a_profile_that_left_the_catalog_ends_and_what_serves_with_it_stays():
    without = clusters.model("m", clusters.profile("new"))
    action = step(placed(), model=without)
    assert isinstance(action, Drain)
    assert "its profile cpu is no longer" in action.reason
    assert step(clusters.replica(), model=without) is None, "moving replaces it"


def test_replica_of_an_edited_profile_is_left_alone():
    edited = clusters.model("m", clusters.profile(args=("--new",)))
    assert step(clusters.replica(profile_fp="v1:old"), model=edited) is None


def test_failed_shard_fails_the_replica_with_what_is_known_of_it():
    broken = with_shard(
        clusters.replica(),
        state=ShardState.FAILED,
        error="CUDA out of memory",
        exit_code=1,
        last_output=("line",),
    )
    action = step(broken)
    assert isinstance(action, MarkFailed)
    assert "CUDA out of memory" in action.reason
    assert "exit code 1" in action.reason
    failures = action.failures
    assert (failures.error, failures.exit_code) == ("CUDA out of memory", 1)
    assert failures.last_output == ("line",)
    assert (failures.node_id, failures.replica_id, failures.profile) == ("n1", "m-1", "cpu")


def test_shard_that_stopped_by_itself_is_a_failure():
    action = step(with_shard(clusters.replica(), state=ShardState.STOPPED))
    assert isinstance(action, MarkFailed)
    assert "without being asked" in action.reason


def test_port_of_a_stranger_is_nothing_against_the_model():
    taken = with_shard(clusters.replica(), state=ShardState.FAILED, error="port_in_use: nginx")
    action = step(taken)
    assert isinstance(action, MarkFailed)
    assert action.failures is None


def test_shard_that_went_with_its_node_is_nothing_against_its_model():
    gone = effects.gone(clusters.shard(), error="node n1 is lost", now=NOW)
    action = step(clusters.replica("m-1", gone))
    assert isinstance(action, MarkFailed)
    assert action.failures is None


def test_failure_of_a_draining_replica_is_nothing_against_its_model():
    leaving = replace(clusters.replica(), drain_since_at=NOW, drain_reason="x")
    action = step(with_shard(leaving, state=ShardState.FAILED))
    assert isinstance(action, MarkFailed)
    assert action.failures is None


def test_one_failed_shard_stops_all_others():
    shards = (clusters.shard(state=ShardState.FAILED), clusters.shard(rank=1, node_id="n2"))
    failed = replace(clusters.replica("m-1", *shards), failed_at=NOW, failure="rank 0 died")
    action = step(failed)
    assert action == StopShards("m-1", ("m-1.1",), reason="rank 0 died")


def test_replica_short_of_a_shard_is_never_ready_and_fails():
    half = clusters.replica("m-1", clusters.shard(), want_shards=2)
    assert half.state is ReplicaState.FAILED
    action = step(half)
    assert isinstance(action, MarkFailed)
    assert "1 of 2 shards" in action.reason


def test_replica_on_a_lost_node_loses_its_shards_there():
    node = replace(clusters.node("n1", now=NOW - 70), liveness=Liveness.LOST)
    both = clusters.replica("m-1", clusters.shard(), clusters.shard(rank=1, node_id="n2"))
    on = clusters.cluster(node, clusters.node("n2"), replicas=[both])
    action = advancing.next_step(both, clusters.snapshot(MODEL, on=on))
    assert action == LoseShards("m-1", node_id="n1", reason="node n1 is lost: silent for 70 s")
    lost = effects.replica_after(both, action, now=NOW)
    assert lost.shards[0].is_gone
    assert lost.state is ReplicaState.FAILED


@pytest.mark.parametrize(
    ("silent_s", "answered_ago_s", "ejected_ago_s", "is_kept"),
    [
        (61.0, 1.0, None, True),
        (299.0, 15.0, None, True),
        (61.0, 16.0, None, False),
        (61.0, None, None, False),
        (61.0, 1.0, 2.0, False),
        (300.0, 1.0, None, False),
    ],
    ids=["answers", "long", "no-more", "never", "ejected", "too-long"],
)
def test_what_answers_clients_is_kept_for_a_while_though_its_node_is_lost(
    silent_s, answered_ago_s, ejected_ago_s, is_kept
):
    lost = clusters.node("n1", now=NOW - silent_s, liveness=Liveness.LOST)
    seen = EndpointTraffic(
        1,
        last_used_at=NOW,
        answered_at=None if answered_ago_s is None else NOW - answered_ago_s,
        ejected_at=None if ejected_ago_s is None else NOW - ejected_ago_s,
    )
    snapshot = clusters.snapshot(
        clusters.model("m"),
        on=clusters.cluster(lost, replicas=[clusters.replica()]),
        traffic=Traffic({"m-1": seen}),
    )
    step = advancing.next_step(clusters.replica(), snapshot)
    assert isinstance(step, LoseShards) is not is_kept


def test_unreachable_node_keeps_its_replicas():
    node = replace(clusters.node("n1", now=NOW - 20), liveness=Liveness.UNREACHABLE)
    held = clusters.replica()
    on = clusters.cluster(node, replicas=[held])
    assert advancing.next_step(held, clusters.snapshot(MODEL, on=on)) is None


def test_replica_that_is_over_is_released():
    stopped = replace(clusters.shard(state=ShardState.STOPPED), stop_asked_at=NOW)
    failed = replace(clusters.replica("m-1", stopped), failed_at=NOW, failure="x")
    drained = replace(clusters.replica("m-1", stopped), drain_since_at=NOW)
    assert isinstance(step(failed), Release)
    assert isinstance(step(drained), Release)


@pytest.mark.parametrize(
    ("waited_s", "is_connected", "expected"),
    [
        (9, True, None),
        (10, True, StopShards),
        (10, False, None),
        (75, True, Release),
        (75, False, Release),
    ],
)
def test_stop_is_repeated_until_confirmed_and_not_for_ever(waited_s, is_connected, expected):
    asked = clusters.shard(stop_asked_at=NOW, ordered_at=NOW)
    failed = replace(clusters.replica("m-1", asked), failed_at=NOW, failure="x")
    action = step(failed, now=NOW + waited_s, is_connected=is_connected)
    assert action is None if expected is None else isinstance(action, expected)


def test_what_does_not_confirm_its_end_becomes_a_stray_that_keeps_its_port():
    asked = clusters.shard(stop_asked_at=NOW - 80, ordered_at=NOW, gpu_indices=(0,))
    failed = replace(clusters.replica("m-1", asked), failed_at=NOW - 80, failure="x")
    on = clusters.cluster(clusters.node("n1"), replicas=[failed])
    after = effects.after(on, Release("m-1", reason="x"), now=NOW)
    assert after.replicas == {}
    assert after.strays["n1", "m-1.0"].http_port == 20000


@pytest.mark.parametrize(
    ("is_served", "waited_s", "is_stopped"),
    [(False, 0, True), (True, 0, False), (True, 59.9, False), (True, 60, True)],
    ids=["never-served", "just-now", "in-grace", "grace-over"],
)
def test_drained_replica_stops_when_its_requests_have_had_their_time(
    is_served, waited_s, is_stopped
):
    held = clusters.replica() if is_served else placed()
    leaving = replace(held, drain_since_at=NOW, drain_reason="scaled down")
    action = step(leaving, now=NOW + waited_s)
    assert isinstance(action, StopShards) is is_stopped


def test_drained_replica_stops_as_soon_as_its_engine_says_that_it_is_idle():
    draining = replace(clusters.replica(), drain_since_at=NOW - 4, drain_reason="surplus")
    draining = with_shard(draining, state=ShardState.DRAINING)
    assert step(draining) is None
    assert step(with_shard(draining, is_drained=True)) == StopShards(
        "m-1", ("m-1.0",), reason="surplus"
    )


def test_replica_that_ends_by_itself_while_it_drains_has_not_failed():
    leaving = replace(clusters.replica(), drain_since_at=NOW)
    ended = with_shard(leaving, state=ShardState.STOPPED)
    assert ended.state is ReplicaState.STOPPED
    assert isinstance(step(ended), Release)


@pytest.mark.parametrize(("waited_s", "is_failed"), [(900, False), (900.1, True)])
def test_start_that_nothing_is_heard_of_fails_at_its_timeout(waited_s, is_failed):
    held = with_shard(placed(), start_orders=4)
    action = step(held, now=NOW + waited_s)
    assert isinstance(action, MarkFailed) is is_failed
    if is_failed:
        assert "startup_timeout 900 s" in action.reason
        assert "not ready" in action.failures.error


def fetching(*, rose_at, total=10 * GIB):
    progress = FetchProgress(source="u", done_bytes=1, total_bytes=total)
    return with_shard(
        placed(), is_reported=True, fetch=progress, fetch_rose_at=rose_at, fetch_bytes=total or 0
    )


@pytest.mark.parametrize(
    ("held", "waited_s", "is_failed"),
    [
        (fetching(rose_at=NOW + 899, total=None), 901, True),
        (fetching(rose_at=NOW + 900), 901, False),
        (fetching(rose_at=NOW + 839), 901, True),
        (fetching(rose_at=NOW + 1399), 1400, False),
        (fetching(rose_at=NOW + 1400), 1401, True),
        (with_shard(fetching(rose_at=NOW), fetch=None, state=ShardState.LOADING), 1400, False),
        (with_shard(fetching(rose_at=NOW), fetch=None, state=ShardState.LOADING), 1401, True),
    ],
    ids=[
        "size-unknown-allows-nothing",
        "gets-on",
        "stalled",
        "within-what-its-size-allows",
        "past-what-its-size-allows",
        "loaded-after-a-long-download",
        "loads-too-long",
    ],
)
def test_download_is_allowed_time_for_its_size_and_never_for_its_reports(held, waited_s, is_failed):
    assert isinstance(step(held, now=NOW + waited_s), MarkFailed) is is_failed


def test_start_that_its_node_never_mentioned_is_sent_again_three_times():
    held, now, sent = placed(), NOW, 0
    for _ in range(20):
        now += 10
        action = step(held, now=now)
        if isinstance(action, ResendStart):
            sent += 1
            held = effects.replica_after(held, action, now=now)
    assert sent == 3
    assert action is None


@pytest.mark.parametrize(
    "held",
    [
        with_shard(placed(), is_reported=True),
        with_shard(placed(), state=ShardState.LOADING, is_reported=True),
        replace(placed(), profile_fp="v1:older"),
    ],
    ids=["reported", "loading", "profile-edited-since"],
)
def test_start_is_not_sent_again_when_it_was_heard_or_has_changed(held):
    assert step(held, now=NOW + 10) is None


def waiting_for_its_leader(**leader):
    """Rank 1 waits for rank 0, which is said to fetch unless told otherwise."""
    held = with_shard(placed(nodes=("n1", "n2")), rank=1, is_reported=True)
    progress = FetchProgress(source="u", done_bytes=1, total_bytes=10 * GIB)
    fetches = {"is_reported": True, "fetch": progress, "fetch_rose_at": NOW + 30}
    return with_shard(held, **{**fetches, "fetch_bytes": 10 * GIB, **leader})


def test_ranks_are_told_to_wait_on_while_the_first_one_fetches():
    held = waiting_for_its_leader()
    assert step(held, now=NOW + 29) is None
    action = step(held, now=NOW + 30)
    assert isinstance(action, ResendStart)
    assert (action.node_id, action.spec.rank) == ("n2", 1)
    assert "still fetches" in action.reason
    again = effects.replica_after(held, action, now=NOW + 30)
    assert step(again, now=NOW + 59) is None


@pytest.mark.parametrize(
    "held",
    [
        waiting_for_its_leader(fetch=None),
        waiting_for_its_leader(fetch_rose_at=NOW - 31),
        waiting_for_its_leader(fetch=None, state=ShardState.LOADING),
        with_shard(waiting_for_its_leader(), rank=1, state=ShardState.STARTING),
    ],
    ids=["nothing-to-fetch", "stalled", "loading", "has-met"],
)
def test_nobody_is_told_to_wait_on_for_a_leader_that_does_not_fetch(held):
    assert step(held, now=NOW + 30) is None


def test_start_waits_for_a_stream_before_it_is_sent_again():
    assert step(placed(), now=NOW + 10, is_connected=False) is None


def test_half_adopted_replica_fails_at_the_timeout_when_its_sibling_never_comes():
    half = clusters.replica(
        "m-1", clusters.shard(), want_shards=2, adopted_at=NOW, created_at=NOW - 5000
    )
    assert half.state is ReplicaState.STARTING
    assert step(half, now=NOW + 900) is None
    assert isinstance(step(half, now=NOW + 901), MarkFailed)


def test_replica_that_is_looked_at_again_has_a_fresh_timeout():
    old = clusters.replica("m-1", now=NOW - 5000)
    rechecked = replace(with_shard(old, state=ShardState.STARTING), unready_at=NOW)
    assert rechecked.state is ReplicaState.STARTING
    assert step(rechecked, now=NOW + 899) is None
    assert isinstance(step(rechecked, now=NOW + 901), MarkFailed)


def test_order_to_start_carries_all_that_the_engine_needs():
    profile = clusters.profile(args=("--x",), env={"A": "1"}, startup_timeout_s=60.0)
    model = clusters.model("m", profile, context_length=4096, capabilities=("tools",))
    on = clusters.cluster(clusters.node("n1", mgmt_addr="10.9.9.9"))
    (action,) = decide(clusters.snapshot(model, on=on, seed=7)).actions
    assert isinstance(action, Place)
    (spec,) = action.specs
    assert spec == starting.spec_of(
        action.replica, action.replica.shards[0], model=model, profile=profile
    )
    assert spec.replica_id == action.replica.replica_id
    assert spec.shard_id == f"{spec.replica_id}.0"
    assert (spec.leader_addr, spec.http_port, spec.startup_timeout_s) == ("10.9.9.9", 20000, 60.0)
    assert spec.profile_fp == profile.fingerprint(model=model)
    launch = spec.profile
    assert (launch.model_path, launch.served_model_name) == (model.source, "m")
    assert (launch.args, launch.env, launch.context_length) == (("--x",), {"A": "1"}, 4096)


def test_silent_node_that_speaks_before_it_is_expired_is_not():
    action = ExpireNode("n1", Liveness.LOST, last_seen_at=NOW - 70, reason="x")
    on = clusters.cluster(clusters.node("n1"))
    assert effects.after(on, action, now=NOW) == on
