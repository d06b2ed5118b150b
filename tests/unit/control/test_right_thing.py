"""The right thing by table: drains, losses, mass losses and flapping, with a restart amid each.

A real reconciler, simulated machines and clients that stream, on a clock of their own.
"""

from __future__ import annotations

import pytest

from llmgw.domain import catalog_rules
from llmgw.domain.nodes import NodeTarget
from tests.fakes import clusters
from tests.fakes.virtual_fleet import VirtualFleet

DEAD_S = 5
"""How long there is no control plane when it is restarted."""

RESTART = pytest.mark.parametrize("is_restarted", [False, True], ids=["", "restarted"])


async def fleet(*models, nodes, **others):
    """A fleet in which everything wanted serves, and clients stream."""
    facts = [clusters.facts(f"n{i}", mgmt_addr=f"10.0.0.{i}") for i in range(1, nodes + 1)]
    there = VirtualFleet(*models, nodes=facts, **others)
    wanted = sum(model.scaling.min for model in models)
    await there.until(lambda: len(there.ready_on()) == wanted)
    there.is_serving = True
    await there.seconds(10)
    there.seen.started.clear()
    assert there.seen.failed == 0
    return there


async def restarted(there, *, is_restarted=True):
    """The control plane is killed and comes back, or the time passes with it."""
    if is_restarted:
        there.kill_control()
    await there.seconds(DEAD_S)
    if is_restarted:
        there.start_control()


def clients_noticed_nothing(there):
    return (there.seen.failed, dict(there.seen.broken)) == (0, {})


# A drain


async def drained(there, node_id):
    """Let the node be emptied."""
    return await there.until(lambda: not there.machines[node_id].engines)


MOMENTS = ["never", "while the replacement loads", "while the old one ends its requests"]


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_drain_under_load_has_the_replacement_first_and_costs_no_request(moment):
    there = await fleet(clusters.model("m"), nodes=2)
    (old,) = there.ready_on()
    new = {"n1": "n2", "n2": "n1"}[old]
    there.word(old, NodeTarget.DRAINING)
    await there.until(lambda: there.seen.started)
    if moment == MOMENTS[1]:
        await restarted(there)
    await there.until(lambda: new in there.ready_on())
    assert there.machines[old].engines, "the old one serves until the new one does"
    await there.seconds(2)
    if moment == MOMENTS[2]:
        await restarted(there)
    await drained(there, old)
    await there.seconds(60)
    assert clients_noticed_nothing(there)
    assert there.ready_on() == [new]
    assert len(there.seen.started) == 1
    assert len(there.seen.stopped) == 1


@RESTART
async def test_what_can_run_nowhere_else_serves_until_the_grace_is_over_which_is_shown(
    is_restarted,
):
    there = await fleet(clusters.model("m"), nodes=1)
    there.word("n1", NodeTarget.DRAINING)
    await there.seconds(100)
    await restarted(there, is_restarted=is_restarted)
    await there.seconds(60)
    (view,) = there.lead.replicas()
    assert "n1 drains" in view.drain_reason
    assert "1020 s at most" in view.drain_reason
    assert clients_noticed_nothing(there)
    took_s = await there.until(lambda: not there.machines["n1"].engines, within_s=1200)
    assert 1020 - 165 - 5 <= took_s <= 1020 + 60 + 5
    assert there.seen.broken == {}
    assert there.seen.started == []


@RESTART
async def test_what_is_scaled_down_ends_what_it_serves_and_is_gone(is_restarted):
    there = await fleet(clusters.model("m", min=3), nodes=3, stream_s=15.0)
    there.catalog.swap(catalog_rules.build([clusters.model("m", min=1)]))
    await there.seconds(3)
    await restarted(there, is_restarted=is_restarted)
    await there.until(lambda: len(there.seen.stopped) == 2)
    await there.seconds(60)
    assert len(there.ready_on()) == 1
    assert clients_noticed_nothing(there)


# A node is lost


@RESTART
async def test_a_lost_node_costs_its_own_streams_and_is_replaced_elsewhere(is_restarted):
    there = await fleet(clusters.model("m", min=2), nodes=3)
    lost, kept = there.ready_on()
    (spare,) = {"n1", "n2", "n3"} - {lost, kept}
    there.lose_power(lost)
    await there.seconds(10)
    await restarted(there, is_restarted=is_restarted)
    took_s = await there.until(lambda: there.ready_on() == sorted([kept, spare]))
    assert took_s <= 60 + 30 + there.load_s
    assert there.seen.failed == 0
    assert set(there.seen.broken) == {lost}
    assert len(there.seen.started) == 1
    there.hear(lost)
    await there.seconds(120)
    assert there.ready_on() == sorted([kept, spare])
    assert (len(there.seen.started), there.seen.stopped) == (1, [])


@RESTART
async def test_a_node_that_returns_with_its_engine_leaves_exactly_what_is_wanted(is_restarted):
    """It was cut off for so long that it was replaced: one of the two goes, and cuts nobody."""
    there = await fleet(clusters.model("m", min=2), nodes=3)
    cut, _ = there.ready_on()
    there.silence(cut)
    await there.until(lambda: there.seen.started)
    await there.until(lambda: len(there.ready_on()) == 2 and cut not in there.ready_on())
    there.hear(cut)
    await restarted(there, is_restarted=is_restarted)
    await there.until(lambda: len(there.seen.stopped) == 1)
    await there.seconds(60)
    assert len(there.ready_on()) == 2
    assert sum(len(machine.engines) for machine in there.machines.values()) == 2
    assert clients_noticed_nothing(there)
    assert len(there.seen.started) == 1


async def test_the_only_one_that_serves_is_kept_though_its_node_is_not_heard():
    """Clients get answers from it: it is the control plane that is cut off."""
    there = await fleet(clusters.model("m"), nodes=2)
    (alone,) = there.ready_on()
    there.silence(alone)
    await there.seconds(200)
    assert len(there.table.endpoints) == 1
    there.hear(alone)
    await there.seconds(100)
    assert there.ready_on() == [alone]
    assert clients_noticed_nothing(there)
    assert (there.seen.started, there.seen.stopped) == ([], [])


async def test_what_serves_unheard_stays_published_over_a_restart():
    there = await fleet(clusters.model("m"), nodes=2)
    there.load_s = 250.0
    (alone,) = there.ready_on()
    there.silence(alone)
    await there.seconds(20)
    await restarted(there)
    await there.seconds(200)
    assert len(there.table.endpoints) == 1
    there.hear(alone)
    await there.seconds(300)
    assert len(there.ready_on()) == 1
    assert clients_noticed_nothing(there)


# Many at once


@RESTART
async def test_four_of_ten_nodes_gone_silent_at_once_move_nothing(is_restarted):
    there = await fleet(clusters.model("m", min=10), nodes=10)
    there.silence("n1", "n2", "n3", "n4")
    await there.seconds(100)
    await restarted(there, is_restarted=is_restarted)
    await there.seconds(200)
    assert (there.seen.started, there.seen.stopped) == ([], [])
    assert len(there.table.endpoints) == 10
    there.hear("n1", "n2", "n3", "n4")
    await there.seconds(120)
    assert len(there.ready_on()) == 10
    assert (there.seen.started, there.seen.stopped) == ([], [])
    assert clients_noticed_nothing(there)


@RESTART
async def test_of_two_nodes_one_that_is_gone_is_replaced(is_restarted):
    there = await fleet(clusters.model("m", min=2), nodes=2)
    there.lose_power("n1")
    await restarted(there, is_restarted=is_restarted)
    await there.until(lambda: there.ready_on() == ["n2", "n2"], within_s=200)
    assert there.seen.failed == 0


# Heartbeats that come and go


@RESTART
async def test_a_node_that_flaps_moves_nothing(is_restarted):
    there = await fleet(clusters.model("m", min=3), nodes=3)
    for turn in range(12):
        there.silence("n1")
        await there.seconds(25)
        if turn == 5:
            await restarted(there, is_restarted=is_restarted)
        there.hear("n1")
        await there.seconds(8)
    assert (there.seen.started, there.seen.stopped) == ([], [])
    assert there.ready_on() == ["n1", "n2", "n3"]
    assert clients_noticed_nothing(there)


@RESTART
async def test_a_node_that_is_lost_again_and_again_ends_with_what_is_wanted(is_restarted):
    there = await fleet(clusters.model("m", min=3), nodes=3, clients=0)
    for turn in range(4):
        there.silence("n1")
        await there.seconds(75)
        if turn == 2:
            await restarted(there, is_restarted=is_restarted)
        there.hear("n1")
        await there.seconds(40)
    await there.seconds(200)
    assert len(there.ready_on()) == 3
    assert sum(len(machine.engines) for machine in there.machines.values()) == 3
    assert clients_noticed_nothing(there)
