"""Models loaded on demand end when nobody uses them, and loads when nobody waits for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.reconciler import demand, expecting
from llmgw.control.reconciler.deciding import decide
from llmgw.domain.actions import Drain, Place, StopShards
from llmgw.domain.catalog import Scaling
from llmgw.domain.replicas import FetchProgress, ShardState
from llmgw.domain.traffic import EndpointTraffic, Traffic
from tests.fakes import clusters
from tests.fakes.clusters import NOW

HOUR = 3600.0
USED = EndpointTraffic(inflight=0, last_used_at=NOW - 1800)


def on_demand(name="m", *profiles, idle_timeout_s=1800.0, **others):
    model = clusters.model(name, *profiles, **others)
    return replace(model, scaling=Scaling(min=0, max=1, idle_timeout_s=idle_timeout_s))


def found(model, *, seen=USED, ready_at=NOW - HOUR, held=None, **others):
    """What a pass finds where one replica serves and this was seen of it."""
    held = held or clusters.replica("m-1", ready_at=ready_at)
    on = clusters.cluster(clusters.node("n1"), replicas=[held])
    traffic = Traffic({} if seen is None else {"m-1": seen})
    return clusters.snapshot(model, on=on, traffic=traffic, **others)


def kinds(snapshot):
    return [type(action) for action in decide(snapshot).actions]


# Idle


@pytest.mark.parametrize(
    ("seen", "is_stopped"),
    [
        (EndpointTraffic(inflight=0, last_used_at=NOW - 1800), True),
        (EndpointTraffic(inflight=0, last_used_at=NOW - 1799), False),
        (EndpointTraffic(inflight=1, last_used_at=NOW - 9000), False),
        (EndpointTraffic(inflight=0), False),
        (None, False),
    ],
    ids=["idle-for-long", "not-long-enough", "a-long-request", "fresh-gateways", "no-gateways"],
)
def test_a_model_loaded_on_demand_stops_after_its_idle_timeout_and_no_sooner(seen, is_stopped):
    assert (kinds(found(on_demand(), seen=seen)) == [Drain]) is is_stopped


def test_each_use_keeps_it_and_not_only_the_one_that_loaded_it():
    used = EndpointTraffic(inflight=0, last_used_at=NOW - 1)
    assert kinds(found(on_demand(), seen=used)) == []


def test_idle_time_counts_from_when_it_came_to_serve_and_not_from_before():
    early = EndpointTraffic(inflight=0, last_used_at=NOW - 3 * HOUR)
    assert kinds(found(on_demand(), seen=early, ready_at=NOW - 60)) == []


@pytest.mark.parametrize(
    ("watched_at", "is_stopped"),
    [(NOW - 1800, True), (NOW - 1799, False)],
    ids=["seen-idle-all-the-time", "not-watched-for-so-long"],
)
def test_one_that_nobody_ever_used_is_idle_since_the_gateways_could_have_told(
    watched_at, is_stopped
):
    never = EndpointTraffic(inflight=0)
    snapshot = found(on_demand(), seen=never, watched_since={"m-1": watched_at})
    assert (kinds(snapshot) == [Drain]) is is_stopped


def test_what_must_always_run_is_never_stopped_for_idleness():
    ancient = EndpointTraffic(inflight=0, last_used_at=NOW - 90 * HOUR)
    assert kinds(found(clusters.model("m"), seen=ancient, ready_at=NOW - 99 * HOUR)) == []


def test_what_stopped_for_idleness_is_not_started_again_before_somebody_asks():
    snapshot = found(on_demand())
    on = clusters.reach(clusters.after(snapshot.cluster, decide(snapshot).actions), NEVER_AGAIN)
    assert Place not in kinds(replace(snapshot, cluster=on))
    assert Place in kinds(replace(snapshot, cluster=on, asked=frozenset({"m"})))


NEVER_AGAIN = ShardState.STOPPED


def test_an_idle_model_that_is_asked_for_at_this_moment_stays():
    assert kinds(found(on_demand(), asked=frozenset({"m"}))) == []


def test_gateways_are_watched_from_when_they_first_tell_of_a_replica_and_anew_after_a_gap():
    on = clusters.cluster(replicas=[clusters.replica("m-1"), clusters.replica("m-2")])
    seen = Traffic({"m-1": EndpointTraffic(0), "gone": EndpointTraffic(0)})
    first = demand.watched({}, cluster=on, traffic=seen, now=NOW)
    assert first == {"m-1": NOW}
    assert demand.watched(first, cluster=on, traffic=seen, now=NOW + 9) == {"m-1": NOW}
    assert demand.watched(first, cluster=on, traffic=Traffic(), now=NOW + 9) == {}


# Loads that nobody waits for


def loading(*, done=None, total=1000, reported=True, state=ShardState.PENDING):
    fetch = None if done is None else FetchProgress("https://x/m", done, total_bytes=total)
    shard = clusters.shard(state=state, fetch=fetch, is_reported=reported, ordered_at=NOW)
    return clusters.replica("m-1", shard, now=NOW - 100)


@pytest.mark.parametrize(
    ("held", "is_cancelled"),
    [
        (loading(done=99), True),
        (loading(done=100), False),
        (loading(done=5, total=None), False),
        (loading(reported=False), True),
        (loading(state=ShardState.LOADING), False),
    ],
    ids=["hardly-begun", "a-tenth-is-done", "length-unknown", "never-heard-of", "progress-unknown"],
)
def test_a_load_that_nobody_waits_for_is_given_up_if_hardly_anything_is_done(held, is_cancelled):
    snapshot = found(on_demand(), seen=None, held=held, asked_at={"m": NOW - 60})
    assert (kinds(snapshot) == [Drain, StopShards]) is is_cancelled


@pytest.mark.parametrize(
    ("took_s", "is_cancelled"), [(1001.0, True), (999.0, False)], ids=["early", "on-its-way"]
)
def test_a_load_without_a_download_is_measured_by_what_the_last_one_took(took_s, is_cancelled):
    held = loading(state=ShardState.LOADING)
    snapshot = found(on_demand(), seen=None, held=held, asked_at={"m": NOW - 60})
    on = replace(snapshot.cluster, load_times={("m", "cpu"): took_s})
    assert (kinds(replace(snapshot, cluster=on)) == [Drain, StopShards]) is is_cancelled


@pytest.mark.parametrize(
    "others",
    [{"asked": frozenset({"m"})}, {"asked_at": {"m": NOW - 59}}],
    ids=["somebody-waits", "its-client-may-come-again"],
)
def test_a_load_that_somebody_may_still_wait_for_goes_on(others):
    assert kinds(found(on_demand(), seen=None, held=loading(done=1), **others)) == []


def test_a_start_that_must_run_is_given_up_for_no_lack_of_waiters():
    snapshot = found(clusters.model("m"), seen=None, held=loading(done=1))
    assert kinds(snapshot) == []


def test_a_cancelled_load_counts_as_no_failure():
    snapshot = found(on_demand(), seen=None, held=loading(done=1), asked_at={"m": NOW - 60})
    after = clusters.after(snapshot.cluster, decide(snapshot).actions)
    over = clusters.reach(after, ShardState.STOPPED)
    end = clusters.after(over, decide(replace(snapshot, cluster=over)).actions)
    assert (end.replicas, end.failures) == ({}, {})


# What a load is expected to take


def test_what_a_load_takes_is_learnt_without_its_download():
    shard = clusters.shard(
        state=ShardState.PENDING, fetch=FetchProgress("x", 1, 9), fetch_bytes=9, start_orders=1
    )
    on = clusters.cluster(replicas=[clusters.replica("m-1", shard, now=NOW)])
    for state, after_s in ((ShardState.LOADING, 500), (ShardState.READY, 530)):
        on = clusters.told(on, clusters.report(shard, state=state), now=NOW + after_s)
    assert on.load_times == {("m", "cpu"): 30.0}


def test_a_download_and_the_load_after_it_are_expected_together():
    held = loading(done=500)
    on = clusters.cluster(replicas=[held], load_times={("m", "cpu"): 30.0})
    snapshot = clusters.snapshot(on_demand(), on=on, now=NOW)
    assert expecting.ready_at(held, snapshot) == NOW + 100 + 30


@pytest.mark.parametrize(
    ("held", "share"),
    [
        (loading(done=250), 0.25),
        (loading(done=250, total=None), None),
        (loading(reported=False), 0.0),
        (loading(state=ShardState.LOADING), 0.5),
    ],
    ids=["download", "length-unknown", "not-begun", "learnt"],
)
def test_how_much_of_a_load_is_done(held, share):
    on = clusters.cluster(replicas=[held], load_times={("m", "cpu"): 200.0})
    assert expecting.share_done(held, clusters.snapshot(on_demand(), on=on)) == share
