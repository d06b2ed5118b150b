"""What an agent's report of a shard changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.reconciler import reporting
from llmgw.domain.replicas import FetchProgress, ReplicaState, ShardState, Stray
from tests.fakes import clusters
from tests.fakes.clusters import NOW


def on_one(shard=None, **others):
    held = clusters.replica("m-1", shard or clusters.shard(state=ShardState.PENDING), **others)
    return clusters.cluster(clusters.node("n1"), replicas=[held])


def told(on, state, *, now=NOW + 1, **others):
    report = clusters.report(clusters.shard(), state=state, **others)
    return clusters.told(on, report, now=now)


def test_replica_becomes_ready_once_and_the_moment_is_kept():
    on = told(on_one(), ShardState.READY, now=NOW + 7)
    assert on.replicas["m-1"].state is ReplicaState.READY
    assert on.replicas["m-1"].ready_at == NOW + 7
    again = told(told(on, ShardState.LOADING, now=NOW + 9), ShardState.READY, now=NOW + 11)
    assert again.replicas["m-1"].ready_at == NOW + 7


def test_replica_of_two_is_ready_with_its_last_shard():
    shards = [clusters.shard(rank=r, state=ShardState.LOADING) for r in (0, 1)]
    on = clusters.cluster(clusters.node("n1"), replicas=[clusters.replica("m-1", *shards)])
    one = clusters.told(on, clusters.report(shards[1], state=ShardState.READY))
    assert one.replicas["m-1"].state is ReplicaState.STARTING
    both = clusters.told(one, clusters.report(shards[0], state=ShardState.READY))
    assert both.replicas["m-1"].state is ReplicaState.READY


@pytest.mark.parametrize("final", [ShardState.FAILED, ShardState.STOPPED])
def test_nothing_follows_an_end(final):
    on = told(on_one(), final, error="first")
    late = told(on, ShardState.READY, error="second")
    assert late == on


def test_failure_keeps_error_exit_code_and_last_output():
    on = told(on_one(), ShardState.FAILED, error="boom", exit_code=3, last_output=("a", "b"))
    (shard,) = on.replicas["m-1"].shards
    assert (shard.error, shard.exit_code, shard.last_output) == ("boom", 3, ("a", "b"))
    assert on.replicas["m-1"].state is ReplicaState.FAILED


def progress(done, total=100):
    return FetchProgress(source="u", done_bytes=done, total_bytes=total)


def test_progress_is_a_side_note_and_a_step_clears_it():
    on = told(on_one(), ShardState.PENDING, fetch=progress(5), now=NOW + 1)
    (shard,) = on.replicas["m-1"].shards
    assert (shard.since_at, shard.fetch, shard.fetch_rose_at) == (NOW, progress(5), NOW + 1)
    assert shard.is_reported
    on = told(on, ShardState.LOADING, now=NOW + 2)
    (shard,) = on.replicas["m-1"].shards
    assert (shard.since_at, shard.fetch, shard.fetch_bytes) == (NOW + 2, None, 100)
    assert on.replicas["m-1"].starting_since_at == NOW


def test_download_that_stands_still_is_seen_to():
    on = told(on_one(), ShardState.PENDING, fetch=progress(5), now=NOW + 1)
    on = told(on, ShardState.PENDING, fetch=progress(5), now=NOW + 9)
    assert on.replicas["m-1"].shards[0].fetch_rose_at == NOW + 1
    on = told(on, ShardState.PENDING, fetch=progress(6), now=NOW + 12)
    assert on.replicas["m-1"].shards[0].fetch_rose_at == NOW + 12


def test_report_of_another_node_about_the_same_shard_is_not_ours():
    stranger = replace(clusters.report(clusters.shard(), state=ShardState.READY), node_id="n2")
    on = clusters.told(on_one(), stranger)
    assert on.replicas == on_one().replicas
    assert set(on.strays) == {("n2", "m-1.0")}


def test_end_of_a_stray_frees_its_port():
    stray = Stray(node_id="n1", shard_id="m-1.0", http_port=20000)
    on = clusters.cluster(clusters.node("n1"), strays=[stray])
    assert told(on, ShardState.LOADING).strays == on.strays
    assert told(on, ShardState.STOPPED).strays == {}


def test_engine_that_nobody_knows_is_told_to_end():
    on = told(clusters.cluster(clusters.node("n1")), ShardState.READY)
    assert on.strays["n1", "m-1.0"].ordered_at is None
    assert told(clusters.cluster(clusters.node("n1")), ShardState.FAILED).strays == {}


def test_a_node_that_goes_on_inventing_engines_fills_no_memory():
    on = clusters.cluster(clusters.node("n1"), clusters.node("n2"))
    for node_id, count in (("n1", reporting.MOST_STRAYS + 50), ("n2", 1)):
        for number in range(count):
            invented = clusters.shard(f"x-{number}", node_id=node_id)
            on = clusters.told(on, clusters.report(invented, state=ShardState.READY))
    assert sum(node_id == "n1" for node_id, _ in on.strays) == reporting.MOST_STRAYS
    assert ("n2", "x-0.0") in on.strays


def test_port_of_a_stranger_is_avoided_for_its_time():
    on = told(on_one(), ShardState.FAILED, error="port_in_use: 20000 is held by nginx", now=NOW)
    assert on.blocked_ports == {("n1", 20000): NOW + 600}
    assert told(on_one(), ShardState.FAILED, error="boom").blocked_ports == {}


def test_start_that_could_not_be_sent_fails_its_replica():
    on = reporting.refused(on_one(), replica_id="m-1", shard_id="m-1.0", error="no stream", now=NOW)
    assert on.replicas["m-1"].state is ReplicaState.FAILED
    assert on.replicas["m-1"].shards[0].error == "no stream"


def test_word_of_an_idle_engine_is_kept_while_it_drains():
    on = told(on_one(clusters.shard()), ShardState.DRAINING)
    assert not on.replicas["m-1"].shards[0].is_drained
    on = told(on, ShardState.DRAINING, is_drained=True)
    assert on.replicas["m-1"].shards[0].is_drained
    assert told(on, ShardState.DRAINING).replicas["m-1"].shards[0].is_drained
