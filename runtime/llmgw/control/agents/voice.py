"""Writes on one agent's stream, and ends it with a reason that the agent hears.

gRPC can end no call during a write: a write that was begun is let finish, and is never abandoned.
"""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

from grpc import aio

from llmgw.errors import LlmgwError
from llmgw.rpc import statuses
from llmgw.rpc.v1 import agent_pb2 as pb

_PATIENCE_S = 30.0
"""An agent that reads nothing for so long is cut off without its reason."""


class Voice:
    """All that is ever sent on one stream; one message at a time."""

    def __init__(self, context: aio.ServicerContext[Any, pb.ControlMessage]) -> None:
        """Nothing is under way yet."""
        self._context = context
        self._write: asyncio.Task[None] | None = None

    async def say(self, message: pb.ControlMessage) -> None:
        """Write it; a caller that is cancelled meanwhile leaves the write to finish alone."""
        self._write = asyncio.create_task(self._context.write(message))
        await asyncio.shield(self._write)

    async def refuse(self, error: LlmgwError) -> NoReturn:
        """End the stream with this error, after what is being written; raises, as gRPC wants."""
        if self._write is not None:
            await asyncio.wait((self._write,), timeout=_PATIENCE_S)
            _forget(self._write)
        await statuses.refuse(self._context, error)


def _forget(write: asyncio.Task[None]) -> None:
    """Whether it failed matters to nobody any more; asyncio logs what nobody looked at."""
    if write.done() and not write.cancelled():
        write.exception()
