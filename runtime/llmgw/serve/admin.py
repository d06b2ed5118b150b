"""Runs the admin application on a listening socket, inside the server's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence

import uvicorn

from llmgw.api import application
from llmgw.api.ports import Control
from llmgw.domain.routes import EndpointState, RouteTable
from llmgw.kit.tasks import Tasks

_STOP_WITHIN_S = 3


class RoutesReadiness:
    """Ready when a request could go somewhere; fits ``api.ports.Readiness``."""

    def __init__(self, current: Callable[[], RouteTable]) -> None:
        """``current`` gives the table of the moment."""
        self._current = current
        self.is_stopping = False

    def obstacles(self) -> Sequence[str]:
        """What is missing, a sentence each."""
        found = ["the server is stopping"] if self.is_stopping else []
        if not any(e.state is EndpointState.READY for e in self._current().endpoints):
            found.append("no endpoint is ready")
        return found


class AdminListener:
    """The admin port of one process."""

    def __init__(
        self, listener: socket.socket, *, readiness: RoutesReadiness, control: Control | None
    ) -> None:
        """Serve on ``listener``; without ``control`` only the probes answer."""
        self._readiness = readiness
        self._server = _Server(
            uvicorn.Config(
                application.create_app(
                    readiness=readiness, control=control, names=_names_of_this_machine()
                ),
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=_STOP_WITHIN_S,
            )
        )
        self._listener = listener
        self._tasks = Tasks(owner="admin")
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Answer from now on."""
        self._serving = self._tasks.spawn("serve", self._server.serve([self._listener]))

    async def close(self) -> None:
        """Let requests end, then close the port."""
        self._readiness.is_stopping = True
        self._server.should_exit = True
        if self._serving is not None:
            await asyncio.wait({self._serving}, timeout=_STOP_WITHIN_S + 1)
        await self._tasks.close()
        self._listener.close()


def _names_of_this_machine() -> tuple[str, ...]:
    return socket.gethostname(), socket.getfqdn()


class _Server(uvicorn.Server):
    """A server that leaves signals to the process that it is a part of."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none over."""
        yield
