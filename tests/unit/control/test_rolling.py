"""Replicas follow a changed profile: one first, the rest when it has proven, none if it fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.reconciler.deciding import decide
from llmgw.domain.actions import Drain, EndRoll, HaltRoll, Move, Place, Stay
from llmgw.domain.replicas import ReplicaState, ShardState
from llmgw.domain.snapshots import Bounds, Roll
from tests.fakes import clusters
from tests.fakes.clusters import NOW

OLD, NEW = ("--old",), ("--new",)


def model(args=NEW, **others):
    return clusters.model("m", clusters.profile(args=args, startup_timeout_s=60.0), **others)


def old(replica_id, *, node_id="n1", port=20000):
    before = model(OLD)
    shard = clusters.shard(replica_id, node_id=node_id, http_port=port)
    fingerprint = before.profiles[0].fingerprint(model=before)
    return clusters.replica(replica_id, shard, profile_fp=fingerprint, now=NOW - 900)


class Rolling:
    """A model with old replicas that is being rolled, pass after pass."""

    def __init__(self, *, count=3, most=1, rolled=True, nodes=2, may_interrupt=False):
        self.now = NOW
        self.wish = model(min=count)
        self.bounds = Bounds(max_unavailable=most)
        self.on = clusters.cluster(
            *(clusters.node(f"n{i + 1}") for i in range(nodes)),
            replicas=[old(f"m-{i}", port=20000 + i) for i in range(count)],
        )
        if rolled:
            roll = Roll("m", begun_at=NOW, may_interrupt=may_interrupt)
            self.on = replace(self.on, rolls={"m": roll})

    def run(self, *, after_s=0.0):
        """One pass, some time later; its actions."""
        self.now += after_s
        self.on = clusters.heard(self.on, now=self.now)
        found = clusters.snapshot(self.wish, on=self.on, now=self.now, bounds=self.bounds)
        decision = decide(found)
        assert not decision.faults
        self.on = clusters.after(self.on, decision.actions, now=self.now)
        return decision.actions

    def rest(self):
        """Passes until nothing is done any more; all that they did."""
        done = []
        while actions := self.run():
            done += actions
        return done

    def start(self, state=ShardState.READY, **word):
        """What starts comes to serve, or says otherwise."""
        for held in list(self.on.replicas.values()):
            if held.state is ReplicaState.STARTING:
                report = clusters.report(held.shards[0], state=state, **word)
                self.on = clusters.told(self.on, report, now=self.now)

    def serving(self):
        return sum(r.state is ReplicaState.READY for r in self.on.replicas.values())

    def old_ones(self):
        return sorted(r for r in self.on.replicas if r in {"m-0", "m-1", "m-2"} and self.is_in(r))

    def is_in(self, replica_id):
        return self.on.replicas[replica_id].drain_since_at is None


def of(actions, kind):
    return [action for action in actions if isinstance(action, kind)]


def test_an_edit_alone_replaces_nothing():
    assert Rolling(rolled=False).run() == ()


def test_the_first_old_replica_serves_until_the_first_new_one_does():
    roll = Rolling()
    assert [type(a) for a in roll.run()] == [Move, Place]
    assert (roll.run(), roll.serving()) == ((), 3)
    roll.start()
    assert [type(a) for a in roll.run()] == [Drain]
    assert roll.serving() == 3


def test_the_others_follow_when_the_first_new_one_has_served_for_a_while():
    roll = Rolling()
    roll.rest()
    roll.start()
    roll.rest()
    assert roll.run(after_s=59) == ()
    assert [type(a) for a in of(roll.run(after_s=1), Move)] == [Move]


@pytest.mark.parametrize(("most", "moves"), [(1, 1), (2, 2), (5, 2)])
def test_after_the_first_as_many_are_replaced_at_a_time_as_may_be_unavailable(most, moves):
    roll = Rolling(most=most)
    assert len(of(roll.rest(), Move)) == 1, "the first one goes alone"
    roll.start()
    roll.rest()
    assert len(of(roll.run(after_s=60), Move)) == moves


def test_a_roll_ends_when_no_old_replica_is_left_and_all_serve_throughout():
    roll, served, done = Rolling(), [], []
    for _ in range(40):
        done += roll.run(after_s=20)
        served.append(roll.serving())
        roll.start()
    assert min(served) >= 3
    assert roll.old_ones() == []
    assert len(of(done, EndRoll)) == 1
    assert roll.on.rolls == {}
    assert roll.run() == ()


def test_a_new_profile_that_fails_halts_the_roll_and_what_serves_stays():
    roll = Rolling()
    roll.rest()
    roll.start(ShardState.FAILED, error="unknown option --new")
    done = roll.rest()
    assert len(of(done, HaltRoll)) == 1
    assert len(of(done, Stay)) == 1
    assert "of the new profile failed: unknown option --new" in roll.on.rolls["m"].halted
    later = [action for _ in range(40) for action in roll.run(after_s=30)]
    assert of(later, Place) == of(later, Move) == of(later, Drain) == []
    assert roll.old_ones() == ["m-0", "m-1", "m-2"]


def test_an_old_replica_that_crashes_halts_nothing():
    roll = Rolling()
    shard = roll.on.replicas["m-2"].shards[0]
    crashed = clusters.report(shard, state=ShardState.FAILED, error="it crashed")
    roll.on = clusters.told(roll.on, crashed)
    assert of(roll.rest(), HaltRoll) == []


def test_a_roll_without_room_halts_after_its_grace_and_stops_nothing():
    roll = Rolling(count=1, nodes=1)
    roll.on = replace(roll.on, nodes={"n1": replace(roll.on.nodes["n1"], is_cordoned=True)})
    assert [type(a) for a in roll.run()] == [Move]
    assert roll.run(after_s=599) == ()
    assert [type(a) for a in roll.run(after_s=1)] == [HaltRoll, Stay]
    assert "no replacement of m-0 came to serve within 600 s" in roll.on.rolls["m"].halted
    assert roll.serving() == 1


def test_where_it_was_allowed_the_old_one_makes_room_and_only_after_none_was_found():
    roll = Rolling(count=1, nodes=1, may_interrupt=True)
    roll.on = replace(roll.on, nodes={"n1": replace(roll.on.nodes["n1"], is_cordoned=True)})
    roll.run()
    assert roll.run(after_s=29) == ()
    assert [type(a) for a in roll.run(after_s=1)] == [Drain]


def test_a_replica_on_a_draining_node_leaves_it_also_while_a_roll_is_halted():
    roll = Rolling(count=1)
    halted = replace(roll.on.rolls["m"], halted="it failed")
    nodes = {**roll.on.nodes, "n1": replace(roll.on.nodes["n1"], is_draining=True)}
    roll.on = replace(roll.on, rolls={"m": halted}, nodes=nodes)
    assert len(of(roll.run(), Move)) == 1


def test_a_roll_of_a_model_that_left_the_catalog_ends():
    roll = Rolling(count=1)
    roll.wish = clusters.model("other")
    assert len(of(roll.run(), EndRoll)) == 1
