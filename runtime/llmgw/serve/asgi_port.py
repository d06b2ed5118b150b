"""Runs an ASGI application on a listening socket, inside the server's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from llmgw.kit.tasks import Tasks

_STOP_WITHIN_S = 3


class AsgiPort:
    """One open port with its application, from ``start`` to ``close``."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        app: Any,
        name: str,
        protocol: type[asyncio.Protocol] | None = None,
    ) -> None:
        """Serve ``app`` on ``listener``, which is closed with it; ``name`` is that of its task.

        ``protocol`` speaks HTTP in another way than uvicorn's own.
        """
        self._listener = listener
        self._server = _Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                http=protocol or "auto",
                ws="none",
                timeout_graceful_shutdown=_STOP_WITHIN_S,
            )
        )
        self._tasks = Tasks(owner=name)
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Answer from now on."""
        self._serving = self._tasks.spawn("serve", self._server.serve([self._listener]))

    async def close(self) -> None:
        """Let requests end, then close the port."""
        self._server.should_exit = True
        if self._serving is not None:
            await asyncio.wait({self._serving}, timeout=_STOP_WITHIN_S + 1)
        await self._tasks.close()
        self._listener.close()


class _Server(uvicorn.Server):
    """A server that leaves signals to the process that it is a part of."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none over."""
        yield
