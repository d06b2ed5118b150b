"""What is kept of nodes, on each database."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from llmgw.domain.nodes import NodeTarget
from llmgw.domain.stored import NodeFlag, StoredNode
from llmgw.errors import Standby, Unknown

DRAIN = NodeFlag(target=NodeTarget.DRAINING, reason="new fan", actor="ann", at=50.25)


async def test_a_node_that_registers_is_known_without_having_been_enrolled(store):
    await store.nodes.registered("n1", {"memory_total_mb": 64}, at=3.0)
    assert await store.nodes.all() == [
        StoredNode(node_id="n1", enrolled_at=3.0, facts={"memory_total_mb": 64}, seen_at=3.0)
    ]


async def test_a_registration_keeps_what_an_operator_said(store):
    await store.nodes.enrol("n1", access={"host": "10.0.0.5"}, at=1.0)
    await store.nodes.flag("n1", DRAIN)
    await store.nodes.registered("n1", {"agent_version": "2"}, at=90.0)
    assert await store.nodes.find("n1") == StoredNode(
        node_id="n1",
        enrolled_at=1.0,
        target=NodeTarget.DRAINING,
        reason="new fan",
        actor="ann",
        since=50.25,
        access={"host": "10.0.0.5"},
        facts={"agent_version": "2"},
        seen_at=90.0,
    )


async def test_a_flag_survives_a_restart(address, opened):
    before = await opened(address)
    await before.nodes.flag("n1", DRAIN)
    await before.close()
    after = await (await opened(address)).nodes.find("n1")
    assert (after.target, after.reason, after.actor) == (NodeTarget.DRAINING, "new fan", "ann")


async def test_a_node_that_never_registered_was_never_seen(store):
    await store.nodes.enrol("n1", access={}, at=1.0)
    known = await store.nodes.find("n1")
    assert (known.seen_at, known.since, known.target) == (None, None, NodeTarget.READY)


async def test_a_banned_node_stays_so_until_somebody_says_otherwise(store):
    await store.nodes.enrol("n1", access={}, at=1.0)
    await store.nodes.ban("n1", is_banned=True)
    await store.nodes.registered("n1", {}, at=2.0)
    assert (await store.nodes.find("n1")).is_banned
    await store.nodes.ban("n1", is_banned=False)
    assert not (await store.nodes.find("n1")).is_banned


async def test_a_forgotten_node_is_gone_and_an_unknown_one_is_told(store):
    await store.nodes.enrol("n1", access={}, at=1.0)
    await store.nodes.forget("n1")
    assert await store.nodes.find("n1") is None
    with pytest.raises(Unknown, match="no node n1"):
        await store.nodes.forget("n1")
    with pytest.raises(Unknown, match="no node n1"):
        await store.nodes.ban("n1", is_banned=True)


async def test_many_nodes_are_seen_at_once_and_keep_what_was_said_of_them(store):
    await store.nodes.flag("n0007", DRAIN)
    names = [f"n{number:04}" for number in range(1200)]
    await store.nodes.seen({name: {"hostname": name} for name in names}, at=7.0)
    await store.nodes.seen({"n0003": {"hostname": "other"}}, at=9.0)
    found = {node.node_id: node for node in await store.nodes.all()}
    assert sorted(found) == names
    assert (found["n0007"].target, found["n0007"].seen_at) == (NodeTarget.DRAINING, 7.0)
    assert (found["n0003"].facts, found["n0003"].seen_at) == ({"hostname": "other"}, 9.0)
    assert found["n0003"].enrolled_at == 7.0


async def test_nodes_not_seen_for_long_go_unless_somebody_said_something_of_them(store):
    await store.nodes.seen({"old": {}, "flagged": {}, "banned": {}}, at=7.0)
    await store.nodes.seen({"new": {}}, at=90.0)
    await store.nodes.enrol("awaited", access={}, at=1.0)
    await store.nodes.flag("flagged", DRAIN)
    await store.nodes.ban("banned", is_banned=True)
    assert await store.nodes.prune(before=50.0) == 1
    left = [node.node_id for node in await store.nodes.all()]
    assert left == ["awaited", "banned", "flagged", "new"]


async def test_a_word_of_another_release_keeps_replicas_away_and_hides_no_other_node(store):
    await store.nodes.flag("n1", DRAIN)
    await store.nodes.seen({"n2": {}}, at=1.0)

    async def work(connection):
        await connection.execute(text("UPDATE nodes SET target = 'parked' WHERE node_id = 'n1'"))

    await store.database.write(work)
    targets = {node.node_id: node.target for node in await store.nodes.all()}
    assert targets == {"n1": NodeTarget.CORDONED, "n2": NodeTarget.READY}


async def test_who_leads_no_more_changes_nothing(store):
    await store.nodes.flag("n1", DRAIN, owner="a")  # nobody has ever held the lease
    await store.leases.take(owner="a", address="a:9090", ttl_s=60)
    await store.nodes.flag("n2", DRAIN, owner="a")
    with pytest.raises(Standby, match="ask a:9090") as refused:
        await store.nodes.flag("n3", DRAIN, owner="b")
    assert refused.value.leader == "a:9090"
    with pytest.raises(Standby):
        await store.nodes.forget("n1", owner="b")
    assert [node.node_id for node in await store.nodes.all()] == ["n1", "n2"]
