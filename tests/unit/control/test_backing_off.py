"""How long a model waits after a failure, and what it remembers of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.reconciler import backing_off, draws
from llmgw.domain.replicas import ShardState
from llmgw.domain.snapshots import Bounds
from tests.fakes import clusters
from tests.fakes.clusters import NOW

MODEL = clusters.model("m")
FAILED = clusters.shard(state=ShardState.FAILED, error="boom", exit_code=9)


def failures(*, before=None, replica=None, now=NOW, seed=1, model=MODEL):
    on = clusters.cluster(failures={"m": before} if before else {})
    snapshot = clusters.snapshot(model, on=on, now=now, seed=seed)
    replica = replica or clusters.replica("m-1", FAILED)
    return backing_off.after_failure(replica, model=model, reason="late", snapshot=snapshot)


@pytest.mark.parametrize(
    ("count", "expected_s"),
    [(1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 320), (7, 600), (20, 600), (90, 600)],
)
def test_wait_doubles_from_ten_seconds_to_ten_minutes(count, expected_s):
    before = replace(failures(), count=count - 1) if count > 1 else None
    after = failures(before=before)
    assert after.count == count
    wait_s = after.until_at - NOW
    assert 0.9 * expected_s <= wait_s <= min(600, 1.1 * expected_s)


def test_wait_is_spread_by_chance_and_capped():
    waits = {failures(seed=seed).until_at - NOW for seed in range(50)}
    assert len(waits) > 40
    assert 9 <= min(waits) < 9.5
    assert 10.5 < max(waits) <= 11
    bounds = Bounds()
    assert max(waits) <= bounds.max_backoff_s


def test_replica_that_served_for_ten_minutes_restarts_at_once_and_begins_a_new_row():
    proven = clusters.replica("m-1", FAILED, ready_at=NOW - 600)
    before = replace(failures(), count=5, by_profile={"cpu": 5})
    after = failures(before=before, replica=proven)
    assert (after.count, after.until_at, after.by_profile) == (0, NOW, {})
    assert after.error == "boom"
    again = failures(before=after)
    assert again.count == 1
    assert 9 <= again.until_at - NOW <= 11


def test_replica_that_served_for_less_counts():
    shortly = clusters.replica("m-1", FAILED, ready_at=NOW - 599)
    assert failures(replica=shortly).count == 1


def test_edited_definition_counts_from_none():
    edited = clusters.model("m", clusters.profile(priority=3))
    assert failures(before=replace(failures(), count=5), model=edited).count == 1


def test_failures_are_counted_by_profile_and_remembered_by_node_for_their_time():
    other = clusters.replica(
        "m-2", clusters.shard("m-2", node_id="n2", state=ShardState.FAILED), profile="gpu"
    )
    first = failures()
    second = failures(before=first, replica=other, now=NOW + 100)
    assert second.by_profile == {"cpu": 1, "gpu": 1}
    assert second.by_node == {"n1": NOW, "n2": NOW + 100}
    third = failures(before=second, replica=other, now=NOW + 650)
    assert third.by_node == {"n2": NOW + 650}


def test_replica_that_only_came_too_late_blames_all_its_nodes_and_keeps_the_reason():
    late = clusters.replica("m-1", clusters.shard(state=ShardState.LOADING))
    after = failures(replica=late)
    assert after.error == "late"
    assert set(after.by_node) == {"n1"}


@pytest.mark.parametrize(
    ("proven_since_at", "count", "is_void"),
    [(None, 2, False), (NOW - 1, 2, False), (NOW + 1, 2, True), (NOW + 1, 0, False)],
    ids=["not-proven", "proven-before", "proven-after", "nothing-to-forget"],
)
def test_count_is_void_once_the_model_serves_again(proven_since_at, count, is_void):
    held = replace(failures(), count=count)
    assert backing_off.is_void(held, model=MODEL, proven_since_at=proven_since_at) is is_void


@pytest.mark.parametrize("model", [None, clusters.model("m", source="/other")])
def test_count_is_void_once_the_entry_is_edited_or_gone(model):
    assert backing_off.is_void(failures(), model=model, proven_since_at=None)


def test_draws_repeat_with_their_seed_and_differ_with_their_words():
    assert draws.fraction(1, "a") == draws.fraction(1, "a")
    values = [draws.fraction(seed, word) for seed in range(20) for word in ("a", "b")]
    assert len(set(values)) == 40
    assert all(0 <= value < 1 for value in values)
    assert len(draws.token(1, "a")) == 8
