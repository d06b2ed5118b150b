"""One gateway worker: a process that owns a listening socket and serves what its link tells it.

Started by ``workers`` with its socket and the first end of its link.
It outlives the server: while no server is there it serves from its last table and waits at
``<run_dir>/worker-<pid>.sock`` for the next one, which is handed the listening socket as well.
It knows no control plane, store or web framework, so that it stays small.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from llmgw import __version__
from llmgw.kit import logs
from llmgw.kit.metrics import Sample
from llmgw.kit.tasks import Tasks
from llmgw.serve import messages
from llmgw.serve.key_questions import KeyQuestions
from llmgw.serve.link import Link, LinkListener
from llmgw.serve.liveroutes import LiveRoutes
from llmgw.serve.messages import (
    AskFigures,
    Configure,
    Figures,
    Hello,
    KeyAnswer,
    Routes,
    Serving,
    Wanted,
)
from llmgw.serve.siblings import Siblings
from llmgw.serve.signals import StopAsked
from llmgw.serve.wishes import Wishes

_log = logs.get(__name__)


class CarriesRequests(Protocol):
    """What a worker needs of the gateway."""

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Take connections."""
        ...

    def figures(self) -> tuple[Sample, ...]:
        """Its metrics of this moment."""
        ...

    def receipt(self, request_id: str) -> bytes | None:
        """What is told of a request that ended here."""
        ...

    async def drain(self, grace_s: float, *, delay_s: float) -> None:
        """Say for ``delay_s`` that no more is taken, then let running requests end."""
        ...

    async def close(self) -> None:
        """End what still runs."""
        ...


SOCKETS = "worker-*.sock"
"""Where workers wait for the next server, below the run folder."""

_COLLECT_ABOVE = 10_000
"""Objects made before the collector looks: the hot path makes few cycles, and looking costs."""


@dataclass(frozen=True, slots=True)
class Ties:
    """What joins a worker's gateway with the server and with other workers."""

    routes: LiveRoutes
    wishes: Wishes
    siblings: Siblings
    keys: KeyQuestions


MakeGateway = Callable[[Configure, Ties], CarriesRequests]


def socket_path(run_dir: Path, *, pid: int) -> Path:
    """Where the worker ``pid`` waits for the next server."""
    return run_dir / SOCKETS.replace("*", str(pid))


def pid_of(path: Path) -> int | None:
    """Whose socket in the run folder this is."""
    _, _, number = path.stem.rpartition("-")
    return int(number) if number.isdecimal() else None


class Worker:
    """The worker's life: found, configured, serving, drained."""

    def __init__(
        self, *, listener: socket.socket, run_dir: Path, make_gateway: MakeGateway
    ) -> None:
        """``listener`` listens already; nothing is accepted before settings and a table came."""
        self._listener = listener
        self._run_dir = run_dir
        self._make_gateway = make_gateway
        self._routes = LiveRoutes()
        self._wishes = Wishes(on_change=self._tell_wishes)
        self._siblings = Siblings(run_dir, find=self._receipt)
        self._keys = KeyQuestions(self._sent)
        self._tasks = Tasks(owner="worker")
        self._stop = StopAsked()
        self._link: Link | None = None
        self._configured: Configure | None = None
        self._gateway: CarriesRequests | None = None
        self._is_starting = False
        self._is_serving = False

    async def run(self, first_link: socket.socket) -> None:
        """Serve until SIGTERM; a second SIGTERM ends what still runs."""
        self._stop.listen((signal.SIGTERM,))
        door = LinkListener(socket_path(self._run_dir, pid=os.getpid()), on_link=self._take)
        self._take(Link(first_link))
        try:
            await self._stop.wait()
        finally:
            door.close()
            await self._end()
            self._siblings.close()
            await self._tasks.close()

    def _take(self, link: Link) -> None:
        """Follow this server from now on; it has the lock, so an older link is a dead one's."""
        old, self._link = self._link, link
        if old is not None:
            old.close()
        link.start(on_packet=self._received, on_closed=lambda: self._lost(link))
        self._send(self._hello(), fds=(self._listener.fileno(),))
        if self._wishes.models:
            self._tell_wishes()

    def _hello(self) -> Hello:
        pid, configured = os.getpid(), self._configured
        if configured is None:
            return Hello(pid=pid, version=__version__)
        return Hello(
            pid=pid,
            version=__version__,
            digest=configured.settings.digest(),
            is_serving=self._is_serving,
            board=configured.board,
            row=configured.row,
        )

    def _lost(self, link: Link) -> None:
        if link is not self._link:
            return
        self._link = None
        self._keys.server_lost()
        if self._stop.is_asked:
            return
        if self._is_serving:
            _log.warning(
                "server_lost", serves="on from the last table", table=self._routes.current().number
            )
        else:
            self._stop.ask()

    def _received(self, body: bytes, fds: tuple[int, ...]) -> None:
        for fd in fds:
            os.close(fd)
        try:
            message = messages.decode(body)
        except msgspec.MsgspecError as error:
            _log.error("link_message_unreadable", error=str(error))
            return
        if isinstance(message, Configure) and self._configured is None:
            self._configured = message
            log = message.settings.log
            logs.setup(level=log.level, as_json=log.format == "json")
        elif isinstance(message, AskFigures):
            self._tell_figures()
        elif isinstance(message, KeyAnswer):
            self._keys.answered(message)
        elif isinstance(message, Routes):
            self._routes.put(message.table)
            self._begin()

    def _begin(self) -> None:
        if self._is_serving:
            self._send(Serving(table_number=self._routes.current().number))
        elif self._configured is not None and not self._is_starting:
            self._is_starting = True
            self._tasks.spawn("start", self._start(self._configured))

    async def _start(self, configured: Configure) -> None:
        try:
            ties = Ties(
                routes=self._routes,
                wishes=self._wishes,
                siblings=self._siblings,
                keys=self._keys,
            )
            self._gateway = self._make_gateway(configured, ties)
            self._siblings.open()
            await self._gateway.start([self._listener])
        except Exception as error:  # noqa: BLE001 - the edge: said, then the process ends
            _log.error("gateway_not_started", error=str(error), exc=error)
            self._stop.ask()
            return
        gc.collect()
        gc.freeze()
        gc.set_threshold(_COLLECT_ABOVE)
        self._is_serving = True
        self._send(Serving(table_number=self._routes.current().number))

    async def _end(self) -> None:
        if self._gateway is None or self._configured is None:
            return
        stopping = self._configured.settings.gateway
        await self._stop.unless_hurried(
            self._gateway.drain(stopping.shutdown_grace_s, delay_s=stopping.drain_delay_s)
        )
        await self._gateway.close()
        self._tell_figures()

    def _tell_figures(self) -> None:
        if self._gateway is not None:
            own = (
                Sample("llmgw_tasks", (), len(asyncio.all_tasks())),
                Sample("llmgw_memory_blocks", (), sys.getallocatedblocks()),
            )
            self._send(Figures(samples=self._gateway.figures() + own))

    def _tell_wishes(self) -> None:
        self._send(Wanted(models=self._wishes.models))

    def _receipt(self, request_id: str) -> bytes | None:
        return self._gateway.receipt(request_id) if self._gateway is not None else None

    def _sent(self, message: messages.Message) -> bool:
        self._send(message)
        return self._link is not None

    def _send(self, message: messages.Message, *, fds: tuple[int, ...] = ()) -> None:
        if self._link is not None:
            self._link.send(
                subject=messages.subject(message), body=messages.encode(message), fds=fds
            )
