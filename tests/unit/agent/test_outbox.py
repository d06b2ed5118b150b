"""What waits to be said: in order, bounded, and the end of a shard is not forgotten."""

from __future__ import annotations

import asyncio

import pytest

from llmgw.agent.outbox import Outbox
from llmgw.domain.replicas import ShardReport, ShardState
from llmgw.errors import Exhausted
from llmgw.rpc.v1 import agent_pb2 as pb


def report(shard_id, state=ShardState.LOADING):
    return ShardReport(node_id="n", replica_id="r", shard_id=shard_id, state=state)


def opened(**limits):
    outbox = Outbox(**limits)
    outbox.open(running=())
    return outbox


async def said(outbox):
    """Every letter that waits, as if written."""
    shards = []
    while outbox._letters:
        letter = await outbox.first()
        shards.append(letter.message.shard.shard_id)
        outbox.done(letter)
    return shards


async def test_letters_leave_in_the_order_in_which_they_came():
    outbox = opened()
    for name in "abc":
        outbox.report(report(name))
    assert await said(outbox) == ["a", "b", "c"]


async def test_a_letter_that_could_not_be_written_stays():
    outbox = opened()
    outbox.report(report("a"))
    assert await outbox.first() is await outbox.first()


async def test_only_ends_are_kept_between_sessions():
    outbox = opened()
    outbox.report(report("a"))
    outbox.report(report("b", ShardState.FAILED))
    outbox.put(pb.AgentMessage())
    outbox.close()
    outbox.report(report("c"))
    outbox.put(pb.AgentMessage())
    outbox.report(report("d", ShardState.STOPPED))
    outbox.open(running={"d"})
    assert await said(outbox) == ["b"]


async def test_too_many_letters_end_the_session():
    outbox = opened(limit=2)
    for name in "abc":
        outbox.report(report(name))
    with pytest.raises(Exhausted, match="more than 2"):
        await outbox.first()
    assert outbox.dropped == 1
    outbox.close()
    outbox.open(running=())
    outbox.report(report("d"))
    assert await said(outbox) == ["d"]


async def test_between_sessions_the_oldest_ends_go_first_and_are_counted():
    outbox = Outbox(limit=2)
    for name in "abc":
        outbox.report(report(name, ShardState.STOPPED))
    outbox.open(running=())
    assert await said(outbox) == ["b", "c"]
    assert outbox.dropped == 1


async def test_deliver_returns_when_the_letter_has_left():
    outbox = opened()
    delivery = asyncio.create_task(outbox.deliver(pb.AgentMessage()))
    letter = await outbox.first()
    assert not delivery.done()
    outbox.done(letter)
    await delivery
