"""What is kept of nodes, on each database."""

from __future__ import annotations

import pytest

from llmgw.domain.nodes import NodeTarget
from llmgw.domain.stored import StoredNode
from llmgw.errors import Unknown
from llmgw.store.nodes_repo import NodeFlag

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
