"""The admin port of a server: the admin application and whether this process is ready."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from llmgw.api import application
from llmgw.api.ports import Control, MetricsPage
from llmgw.domain.routes import EndpointState, RouteTable
from llmgw.serve.asgi_port import AsgiPort


class RoutesReadiness:
    """Ready when a request could go somewhere; fits ``api.ports.Readiness``."""

    def __init__(
        self, current: Callable[[], RouteTable], *, obstacle: Callable[[], str] = str
    ) -> None:
        """``current`` gives the table of the moment, ``obstacle`` what else stands in the way."""
        self._current = current
        self._obstacle = obstacle
        self.is_stopping = False

    def obstacles(self) -> Sequence[str]:
        """What is missing, a sentence each."""
        found = ["the server is stopping"] if self.is_stopping else []
        if not any(e.state is EndpointState.READY for e in self._current().endpoints):
            found.append("no endpoint is ready")
        found += filter(None, [self._obstacle()])
        return found


class AdminListener:
    """The admin port of one process."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        readiness: RoutesReadiness,
        control: Control | None,
        figures: MetricsPage,
    ) -> None:
        """Serve on ``listener``; without ``control`` only probes and metrics answer."""
        self._readiness = readiness
        app = application.create_app(
            readiness=readiness, control=control, figures=figures, names=_names_of_this_machine()
        )
        self._port = AsgiPort(listener, app=app, name="admin")

    def start(self) -> None:
        """Answer from now on."""
        self._port.start()

    async def close(self) -> None:
        """Let requests end, then close the port."""
        self._readiness.is_stopping = True
        await self._port.close()


def _names_of_this_machine() -> tuple[str, ...]:
    return socket.gethostname(), socket.getfqdn()
