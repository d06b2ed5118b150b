"""Many nodes silent at once are not given up, a few are; the brake ends and does not come again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.reconciler import braking, deciding, gates
from llmgw.domain.actions import ExpireNode, Place
from llmgw.domain.nodes import HeartbeatFacts, Liveness, NodeTarget
from llmgw.domain.replicas import ReplicaState
from llmgw.domain.snapshots import Bounds, Brake
from tests.fakes import clusters
from tests.fakes.clusters import NOW
from tests.fakes.reconciled import Stage

BOUNDS = Bounds()


def nodes(count, *, silent=0, for_s=20.0, apart_s=0.0):
    """Nodes of which the first ``silent`` spoke last so long ago, each some seconds before."""
    found = [clusters.node(f"n{number:03}") for number in range(count)]
    quiet = [
        replace(node, last_seen_at=NOW - for_s - number * apart_s)
        for number, node in enumerate(found[:silent])
    ]
    return {node.node_id: node for node in (*quiet, *found[silent:])}


def noted(brake=None, *, on, awaited=(), now=NOW):
    since = dict.fromkeys(awaited, NOW - 30)
    return braking.noted(brake or Brake(), nodes=on, awaited=since, bounds=BOUNDS, now=now)


@pytest.mark.parametrize(
    ("count", "silent", "is_on"),
    [
        (100, 40, True),
        (100, 30, True),
        (100, 29, False),
        (10, 3, True),
        (9, 3, True),
        (5, 2, False),
        (3, 3, True),
        (2, 1, False),
        (2, 2, False),
        (1, 1, False),
    ],
)
def test_a_third_of_the_nodes_and_no_fewer_than_three_put_the_brake_on(count, silent, is_on):
    brake = noted(on=nodes(count, silent=silent))
    assert brake.is_on is is_on
    assert len(brake.held) == (silent if is_on else 0)


def test_nodes_that_fell_silent_one_after_the_other_do_not():
    assert not noted(on=nodes(10, silent=4, apart_s=31.0, for_s=16.0)).is_on
    assert noted(on=nodes(10, silent=4, apart_s=15.0, for_s=16.0)).is_on


def test_nodes_that_do_not_come_back_to_a_new_control_plane_are_silent_too():
    on = nodes(10)
    gone = [f"x{number}" for number in range(5)]
    assert not noted(on=on, awaited=gone[:4]).is_on
    brake = noted(on=on, awaited=gone)
    assert (brake.is_on, brake.held) == (True, frozenset(gone))
    assert noted(brake, on=on, awaited=gone).is_on
    some_back = {**on, **{node_id: clusters.node(node_id) for node_id in gone[:3]}}
    off = noted(brake, on=some_back, awaited=gone[3:])
    assert (off.is_on, off.passed) == (False, frozenset(gone[3:]))
    lifted = braking.lifted(on, awaited=dict.fromkeys(gone, NOW), bounds=BOUNDS, now=NOW)
    assert not noted(lifted, on=on, awaited=gone).is_on


def test_nodes_that_are_lost_already_count_on_neither_side():
    on = nodes(10, silent=3)
    lost = {name: replace(node, liveness=Liveness.LOST) for name, node in on.items()}
    assert not noted(on={**on, "n000": lost["n000"]}).is_on
    few_left = {**on, **{name: lost[name] for name in ("n005", "n006", "n007", "n008", "n009")}}
    assert noted(on=few_left).is_on


def test_while_it_is_on_nobody_is_given_up_and_nothing_is_placed():
    on = nodes(10, silent=4, for_s=61.0)
    snapshot = clusters.snapshot(clusters.model("m"), on=clusters.cluster(*on.values()))
    loose = deciding.decide(snapshot).actions
    assert [a.liveness for a in loose if isinstance(a, ExpireNode)] == [Liveness.LOST] * 4
    assert any(isinstance(a, Place) for a in loose)
    braked = replace(snapshot, brake=noted(on=on))
    actions = deciding.decide(braked).actions
    assert [a.liveness for a in actions] == [Liveness.UNREACHABLE] * 4
    (shut,) = [g for g in gates.of(clusters.model("m"), braked, running=0) if not g.is_open]
    assert shut.name == "brake"
    assert "4 nodes fell silent at once" in shut.detail
    assert "for 600 s" in shut.detail


def test_a_node_that_was_lost_before_stays_lost():
    on = nodes(10, silent=4, for_s=61.0)
    lost = {**on, "n009": replace(on["n009"], liveness=Liveness.LOST)}
    snapshot = clusters.snapshot(on=clusters.cluster(*lost.values()), brake=noted(on=lost))
    assert {a.node_id for a in deciding.decide(snapshot).actions} == set(list(on)[:4])


def test_it_ends_when_half_of_them_are_back():
    brake = noted(on=nodes(10, silent=4))
    assert noted(brake, on=nodes(10, silent=3), now=NOW + 5).is_on
    over = noted(brake, on=nodes(10, silent=2), now=NOW + 5)
    assert not over.is_on
    assert over.passed == {"n000", "n001"}
    assert braking.spares(over, "n000", now=NOW + 64)
    assert not braking.spares(over, "n000", now=NOW + 65)
    assert not braking.spares(over, "n009", now=NOW + 5)


def test_who_falls_silent_a_moment_later_is_waited_for_too():
    brake = noted(on=nodes(10, silent=3))
    more = noted(brake, on=nodes(10, silent=6), now=NOW + 1)
    assert (more.since_at, len(more.held)) == (NOW, 6)
    assert noted(more, on=nodes(10, silent=4), now=NOW + 5).is_on
    assert not noted(more, on=nodes(10, silent=3), now=NOW + 5).is_on


def test_it_ends_after_a_while_and_does_not_come_again_for_the_same_silence():
    brake = noted(on=nodes(10, silent=4))
    ever = nodes(10, silent=4, for_s=20 + 599.0)
    still = {
        k: replace(n, last_seen_at=n.last_seen_at + 599 * (k > "n003")) for k, n in ever.items()
    }
    assert noted(brake, on=still, now=NOW + 599).is_on
    over = noted(brake, on=still, now=NOW + 600)
    assert not over.is_on
    assert not noted(over, on=still, now=NOW + 601).is_on


def test_nodes_that_spoke_in_between_may_put_it_on_again():
    over = braking.lifted(nodes(10, silent=4), awaited={}, bounds=BOUNDS, now=NOW)
    assert over.passed == {"n000", "n001", "n002", "n003"}
    healed = noted(over, on=nodes(10))
    assert (healed.is_on, healed.passed) == (False, frozenset())
    assert noted(healed, on=nodes(10, silent=4)).is_on


async def loss(*, of, among, seconds, stage, keep=()):
    """Time passes while the first ``of`` nodes are silent, and each pass sees that."""
    names = [f"n{number:03}" for number in range(among)]
    for _ in range(seconds // 3):
        stage.clock.advance(3)
        for name in (*names[of:], *keep):
            assert stage.reconciler.heartbeat(name, HeartbeatFacts())
        stage.reconciler.wake()
        await stage.until(lambda: stage.reconciler._pass_at == stage.clock.monotonic())


def states(stage):
    return [view.state for view in stage.reconciler.nodes()]


async def serving(stage, count):
    def is_up():
        stage.obey()
        return len(stage.urls()) == count

    await stage.until(is_up)


async def test_forty_of_a_hundred_silent_at_once_fail_nothing_and_come_back():
    names = [f"n{number:03}" for number in range(100)]
    async with Stage(clusters.model("m", min=100), expected=names).running() as stage:
        for name in names:
            stage.register(name)
        await serving(stage, 100)
        before = {view.replica_id for view in stage.reconciler.replicas()}
        await loss(of=40, among=100, seconds=120, stage=stage)
        assert states(stage).count("unreachable") == 40
        assert len(stage.urls()) == 100, "what serves without its agent is still routed to"
        brake = stage.reconciler.status().control.brake
        assert len(brake.node_ids) == 40
        assert 480 < brake.ends_in_s < 520
        await loss(of=20, among=100, seconds=3, stage=stage)
        assert stage.reconciler.status().control.brake is None
        await loss(of=1, among=100, seconds=57, stage=stage)
        assert {view.replica_id for view in stage.reconciler.replicas()} == before
        assert stage.dispatcher.taken() == []
        await loss(of=1, among=100, seconds=9, stage=stage)
        assert states(stage).count("lost") == 1


async def test_one_of_two_is_rebuilt():
    async with Stage(clusters.model("m", min=2), expected=("n000", "n001")).running() as stage:
        for name in ("n000", "n001"):
            stage.register(name)
        await serving(stage, 2)
        await loss(of=1, among=2, seconds=63, stage=stage)
        await serving(stage, 2)
        assert sorted(states(stage)) == ["lost", "ready"]
        assert {v.shards[0].node_id for v in stage.reconciler.replicas()} == {"n001"}


async def test_who_lifts_the_brake_has_silent_nodes_judged_as_any_other():
    names = [f"n{number:03}" for number in range(5)]
    async with Stage(clusters.model("m"), expected=names).running() as stage:
        for name in names:
            stage.register(name)
        stage.say("n004", NodeTarget.CORDONED)
        await serving(stage, 1)
        await loss(of=4, among=5, seconds=90, stage=stage)
        assert stage.reconciler.status().control.brake is not None
        assert stage.reconciler.instructions.lift_brake()
        await loss(of=4, among=5, seconds=3, stage=stage)
        assert states(stage).count("lost") == 4
        assert all(view.state is not ReplicaState.READY for view in stage.reconciler.replicas())
        assert not stage.reconciler.instructions.lift_brake()
