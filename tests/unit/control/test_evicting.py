"""Idle models make room for one that fits nowhere, the cheapest to miss first."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from llmgw.control.reconciler import demand, explaining
from llmgw.control.reconciler.deciding import decide
from llmgw.domain.actions import Evict, Place, Release, StopShards, Unreserve
from llmgw.domain.catalog import Scaling
from llmgw.domain.replicas import ShardState
from llmgw.domain.traffic import EndpointTraffic, Traffic
from tests.fakes import clusters
from tests.fakes.clusters import NOW

HOUR = 3600.0
IDLE = EndpointTraffic(inflight=0, last_used_at=NOW - 600)


def on_demand(name, *profiles):
    model = clusters.model(name, *(profiles or (clusters.gpu_profile(),)))
    return replace(model, scaling=Scaling(min=0, max=1))


def serving(of, *, node_id="n1", cards=(0,), port=20000, ready_at=NOW - HOUR, **others):
    shard = clusters.shard(f"{of}-1", node_id=node_id, gpu_indices=cards, http_port=port)
    plain = {"profile": "gpu", "ready_at": ready_at}
    return clusters.replica(f"{of}-1", shard, of=of, **{**plain, **others})


def wanting(*held, asker=None, nodes=None, seen=None, asked=("new",), others=(), **snapshot):
    """What a pass finds where a model is asked for and others hold the cards."""
    nodes = nodes or (clusters.node("n1", gpus=1),)
    traffic = {r.replica_id: IDLE for r in held} | (seen or {})
    models = [asker or on_demand("new"), *others]
    known = {model.name for model in models}
    models += [on_demand(r.model) for r in held if r.model not in known]
    return clusters.snapshot(
        *models,
        on=clusters.cluster(*nodes, replicas=held, load_times=snapshot.pop("load_times", {})),
        traffic=Traffic({k: v for k, v in traffic.items() if v is not None}),
        asked=frozenset(asked),
        **snapshot,
    )


def evicted(snapshot):
    return [a.replica_id for a in decide(snapshot).actions if isinstance(a, Evict)]


def kinds(snapshot):
    return [type(action) for action in decide(snapshot).actions]


def applied(snapshot, *, now=None):
    """The snapshot after its own pass, with all nodes alive."""
    actions = decide(snapshot).actions
    now = snapshot.now if now is None else now
    on = clusters.after(snapshot.cluster, actions, now=snapshot.now)
    return replace(snapshot, cluster=clusters.heard(on, now=now), now=now)


def test_an_idle_model_makes_room_for_one_that_is_asked_for():
    snapshot = wanting(serving("old"))
    decision = decide(snapshot)
    (evict,) = decision.actions
    assert evict.replica_id == "old-1"
    assert "nobody has used it for 600 s, and new needs its place" in evict.reason
    assert decision.refusals == {}, "its requests go on waiting"


def test_a_model_that_is_promised_to_run_may_have_the_place_of_an_idle_one_too():
    promised = clusters.model("new", clusters.gpu_profile())
    assert evicted(wanting(serving("old"), asker=promised, asked=())) == ["old-1"]


@pytest.mark.parametrize(
    ("held", "seen", "others"),
    [
        (serving("old"), EndpointTraffic(inflight=1, last_used_at=NOW - 600), {}),
        (serving("old"), EndpointTraffic(inflight=0, last_used_at=NOW - 59), {}),
        (serving("old"), EndpointTraffic(inflight=0), {}),
        (serving("old"), None, {}),
        (serving("old", ready_at=NOW - 299), IDLE, {}),
        (serving("old"), IDLE, {"asked": ("new", "old")}),
        (
            serving("old"),
            IDLE,
            {"others": [clusters.model("old", clusters.gpu_profile(), min=1)]},
        ),
    ],
    ids=[
        "in-flight",
        "just-used",
        "use-unknown",
        "no-word-of-gateways",
        "younger-than-residency",
        "asked-for-itself",
        "promised-to-run",
    ],
)
def test_what_serves_somebody_or_is_promised_or_is_young_is_never_evicted(held, seen, others):
    decision = decide(wanting(held, seen={"old-1": seen}, **others))
    assert decision.actions == ()
    assert "new" in decision.refusals


def test_a_replica_over_several_nodes_is_never_evicted():
    shards = [
        clusters.shard("old-1", node_id=f"n{i}", rank=i - 1, gpu_indices=(0,)) for i in (1, 2)
    ]
    wide = clusters.replica("old-1", *shards, of="old", profile="gpu", ready_at=NOW - HOUR)
    nodes = (clusters.node("n1", gpus=1), clusters.node("n2", gpus=1))
    assert evicted(wanting(wide, nodes=nodes)) == []


def test_nobody_is_evicted_where_that_would_not_make_room():
    big = on_demand("new", clusters.gpu_profile(tp=2))
    assert evicted(wanting(serving("old"), asker=big)) == []
    elsewhere = on_demand("new", clusters.gpu_profile(node_selector={"zone": "b"}))
    assert evicted(wanting(serving("old"), asker=elsewhere)) == []


def test_nobody_is_evicted_where_there_is_room():
    nodes = (clusters.node("n1", gpus=1), clusters.node("n2", gpus=1))
    assert kinds(wanting(serving("old"), nodes=nodes)) == [Place]


def test_one_goes_at_a_time():
    nodes = (clusters.node("n1", gpus=1), clusters.node("n2", gpus=1))
    held = [serving("a"), serving("b", node_id="n2")]
    snapshot = wanting(*held, nodes=nodes, others=[on_demand("also")], asked=("new", "also"))
    assert len(evicted(snapshot)) == 1
    assert evicted(applied(snapshot)) == []


@pytest.mark.parametrize(
    ("idle_s", "load_times", "gone"),
    [
        ({"a": 600, "b": 900}, {}, "b-1"),
        ({"a": 600, "b": 600}, {("a", "gpu"): 300.0, ("b", "gpu"): 20.0}, "b-1"),
        ({"a": 600, "b": 900}, {("a", "gpu"): 10.0, ("b", "gpu"): 300.0}, "a-1"),
        ({"a": 600, "b": 601}, {("b", "gpu"): 30.0}, "b-1"),
    ],
    ids=["longest-idle", "quickest-back", "both-weighed", "unknown-is-as-usual"],
)
def test_who_is_cheapest_to_miss_goes(idle_s, load_times, gone):
    nodes = (clusters.node("n1", gpus=1), clusters.node("n2", gpus=1))
    seen = {f"{k}-1": EndpointTraffic(0, last_used_at=NOW - s) for k, s in idle_s.items()}
    held = [serving("a"), serving("b", node_id="n2")]
    assert evicted(wanting(*held, nodes=nodes, seen=seen, load_times=load_times)) == [gone]


def test_as_few_go_as_are_needed():
    nodes = (clusters.node("n1", gpus=3),)
    held = [serving(n, cards=(i,), port=20000 + i) for i, n in enumerate("abc")]
    asker = on_demand("new", clusters.gpu_profile(tp=2))
    decision = decide(wanting(*held, nodes=nodes, asker=asker))
    (evict,) = decision.actions
    assert len(evict.reservation.victims) == 2


def test_two_go_one_after_the_other_where_one_is_not_enough():
    nodes = (clusters.node("n1", gpus=2),)
    held = [serving("a"), serving("b", cards=(1,), port=20001)]
    snapshot = wanting(*held, nodes=nodes, asker=on_demand("new", clusters.gpu_profile(tp=2)))
    gone = []
    for _ in range(12):
        gone += evicted(snapshot)
        snapshot = applied(snapshot, now=snapshot.now + 30)
        told = [
            clusters.report(s, state=ShardState.STOPPED, replica_id=r.replica_id)
            for r in snapshot.cluster.replicas.values()
            for s in r.shards
            if s.is_stop_asked and not s.state.is_final
        ]
        on = snapshot.cluster
        for report in told:
            on = clusters.told(on, report, now=snapshot.now)
        snapshot = replace(snapshot, cluster=on)
    assert gone == ["a-1", "b-1"]
    (new,) = snapshot.cluster.replicas.values()
    assert (new.model, new.shards[0].gpu_indices) == ("new", (0, 1))
    assert snapshot.cluster.reservations == {}


def leaving():
    """An eviction in the middle: its victim has been drained and stopped."""
    return applied(wanting(serving("old")))


def released(snapshot):
    on = snapshot.cluster
    held = on.replicas["old-1"]
    asked = replace(held.shards[0], stop_asked_at=snapshot.now, state=ShardState.STOPPED)
    gone = replace(held, shards=(asked,))
    return replace(snapshot, cluster=replace(on, replicas={"old-1": gone}))


def test_the_room_that_was_made_goes_to_the_model_that_it_was_made_for():
    older = clusters.model("older", clusters.gpu_profile())
    snapshot = released(leaving())
    catalog = wanting(serving("old"), others=[older]).catalog
    since = {"older": NOW - 500, "new": NOW - 5}
    decision = decide(replace(snapshot, catalog=catalog, missing_since=since))
    kept = [a for a in decision.actions if isinstance(a, (Release, Place))]
    assert [type(a) for a in kept] == [Release, Place]
    assert kept[1].replica.model == "new"
    assert clusters.after(snapshot.cluster, decision.actions).reservations == {}


def foreign(snapshot):
    """The card still looks used: its node has not beaten since the engine ended."""
    nodes = (clusters.node("n1", gpus=[clusters.gpu(0, memory_used_mib=9000)]),)
    on = replace(snapshot.cluster, nodes={n.node_id: n for n in nodes})
    return replace(snapshot, cluster=on)


def test_a_card_that_still_looks_used_is_waited_for_and_nobody_else_goes():
    snapshot = foreign(released(leaving()))
    other = serving("b", node_id="n2")
    on = snapshot.cluster
    nodes = {**on.nodes, "n2": clusters.node("n2", gpus=1)}
    on = replace(on, nodes=nodes, replicas={**on.replicas, "b-1": other})
    catalog = wanting(serving("old"), other).catalog
    traffic = Traffic({"b-1": IDLE})
    decision = decide(replace(snapshot, cluster=on, catalog=catalog, traffic=traffic))
    assert [type(a) for a in decision.actions] == [Release]
    assert decision.refusals == {}


def test_kept_room_is_shown_as_taken_to_others_and_as_free_to_its_model():
    snapshot = released(leaving())
    after = clusters.after(snapshot.cluster, [Release("old-1", reason="")])
    others = [clusters.model("other", clusters.gpu_profile())]
    catalog = wanting(serving("old"), others=others).catalog
    snapshot = replace(snapshot, cluster=after, catalog=catalog)
    theirs = explaining.explain("other", snapshot).profiles[0].nodes[0]
    assert "room kept for new" in theirs.reason
    assert explaining.explain("new", snapshot).profiles[0].is_fit


def test_while_somebody_leaves_the_model_is_explained_to_wait_for_that():
    gate = next(g for g in explaining.explain("new", leaving()).gates if g.name == "room")
    assert (gate.is_open, gate.detail) == (False, "old-1 is leaving to make room")


@pytest.mark.parametrize(
    ("others", "is_given_up"),
    [({"asked": frozenset()}, True), ({}, False)],
    ids=["nobody-waits", "still-wanted"],
)
def test_room_is_kept_only_while_it_is_wanted(others, is_given_up):
    snapshot = replace(leaving(), **others)
    assert (Unreserve in kinds(snapshot)) is is_given_up


def test_room_is_not_kept_for_ever():
    snapshot = foreign(released(leaving()))
    snapshot = applied(snapshot)
    until_at = snapshot.cluster.reservations["new"].until_at
    on = clusters.heard(snapshot.cluster, now=until_at)
    decision = decide(replace(snapshot, cluster=on, now=until_at))
    assert [type(a) for a in decision.actions] == [Unreserve]
    assert "new" in decision.refusals


def test_a_second_victim_that_is_used_again_is_spared_and_the_room_given_up():
    nodes = (clusters.node("n1", gpus=2),)
    held = [serving("a"), serving("b", cards=(1,), port=20001)]
    snapshot = wanting(*held, nodes=nodes, asker=on_demand("new", clusters.gpu_profile(tp=2)))
    snapshot = applied(snapshot)
    busy = Traffic({"a-1": IDLE, "b-1": EndpointTraffic(inflight=1)})
    assert Unreserve in kinds(replace(snapshot, traffic=busy))
    assert evicted(replace(snapshot, traffic=busy)) == []


def test_two_models_with_room_for_one_do_not_chase_each_other_out():
    """Both are asked for all the time; neither goes before it has had its five minutes."""
    snapshot = wanting(serving("old"), asked=("new",))
    swaps_at = []
    for _ in range(240):
        before = snapshot
        snapshot = applied(snapshot, now=snapshot.now + 5)
        on = snapshot.cluster
        swaps_at += [before.now for a in decide(before).actions if isinstance(a, Evict)]
        for held in list(on.replicas.values()):
            for shard in held.shards:
                state = ShardState.STOPPED if shard.is_stop_asked else ShardState.READY
                report = clusters.report(shard, state=state, replica_id=held.replica_id)
                on = clusters.told(on, report, now=snapshot.now)
        serving_now = {r.model for r in on.replicas.values() if r.ready_at is not None}
        traffic = Traffic(
            {r: EndpointTraffic(0, last_used_at=snapshot.now - 61) for r in on.replicas}
        )
        asked = frozenset({"new", "old"} - serving_now)
        snapshot = replace(snapshot, cluster=on, traffic=traffic, asked=asked)
    gaps = [b - a for a, b in itertools.pairwise(swaps_at)]
    assert 2 <= len(swaps_at) <= 4
    assert all(gap >= 300 for gap in gaps)


def test_a_wish_outlives_its_requests_while_room_is_made_and_not_for_ever():
    on = leaving().cluster
    for alone_s, is_wanted in ((59, True), (60, False)):
        wishes = demand.awaiting_room(on, asked_at={"new": NOW - alone_s}, patience_s=60.0, now=NOW)
        assert ("new" in wishes) is is_wanted


def test_what_makes_room_drains_first_and_ends_like_any_other():
    snapshot = leaving()
    assert StopShards not in kinds(snapshot)
    assert StopShards in kinds(replace(snapshot, draining_inflight={"old-1": 0}))
