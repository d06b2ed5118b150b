"""A stream is never ended during a write: gRPC refuses that, and the agent would wait for ever."""

from __future__ import annotations

import asyncio

import pytest

from llmgw.control.agents.voice import Voice
from llmgw.errors import Standby
from llmgw.rpc.v1 import agent_pb2 as pb


class Aborted(Exception):
    """What gRPC raises to end a call."""


class Context:
    """Takes messages when told to, and as gRPC's does, it can not be ended during a write."""

    def __init__(self):
        self.may_write = asyncio.Event()
        self.writes = 0
        self.aborted_with = ""

    async def write(self, message):
        self.writes += 1
        await self.may_write.wait()
        self.writes -= 1

    async def abort(self, code, details, trailing_metadata):
        assert not self.writes, "TOO_MANY_OPERATIONS"
        self.aborted_with = details
        raise Aborted


async def test_the_reason_is_sent_after_the_write_that_was_under_way():
    context = Context()
    voice = Voice(context)
    speaking = asyncio.create_task(voice.say(pb.ControlMessage()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert context.writes == 1
    speaking.cancel()
    ending = asyncio.create_task(voice.refuse(Standby("another one leads")))
    await asyncio.sleep(0)
    assert not ending.done()
    context.may_write.set()
    with pytest.raises(Aborted):
        await ending
    assert context.aborted_with == "another one leads"


async def test_without_a_write_under_way_the_reason_is_sent_at_once():
    context = Context()
    context.may_write.set()
    voice = Voice(context)
    await voice.say(pb.ControlMessage())
    with pytest.raises(Aborted):
        await voice.refuse(Standby("another one leads"))
    assert context.aborted_with == "another one leads"
