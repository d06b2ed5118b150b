"""One worker process as the server sees it: started here, or left by an earlier server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from llmgw import __version__
from llmgw.domain.routes import RouteTable
from llmgw.errors import DeadlinePassed, Internal
from llmgw.kit import logs
from llmgw.kit.metrics import Sample
from llmgw.serve import link as links
from llmgw.serve import messages
from llmgw.serve.link import Link
from llmgw.serve.messages import (
    AskFigures,
    AskKey,
    Configure,
    Figures,
    Hello,
    KeyAnswer,
    Routes,
    Serving,
    Wanted,
    WorkerSettings,
)

_log = logs.get(__name__)


class WorkerProcess:
    """A process, its link and its end; all waits are on events, nothing is polled."""

    def __init__(self, *, link: Link, pid: int, child: subprocess.Popen[bytes] | None) -> None:
        """Watch ``pid`` by a pidfd; ``child`` is absent when somebody else started it."""
        self.pid = pid
        self.exit_code: int | None = None
        self.hello: Hello | None = None
        self.listener: socket.socket | None = None
        self.table_number: int | None = None
        self.row: int | None = None
        self.figures: tuple[Sample, ...] = ()
        self.on_news: Callable[[], None] | None = None
        self.on_key_asked: Callable[[str], None] | None = None
        self._asked: frozenset[str] = frozenset()
        self._child = child
        self._link = link
        self._greeted = asyncio.Event()
        self._serving = asyncio.Event()
        self._told = asyncio.Event()
        self._gone = asyncio.Event()
        self._unlinked = asyncio.Event()
        self._pidfd = os.pidfd_open(pid)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._pidfd, self._exited)
        link.start(on_packet=self._received, on_closed=self._unlinked.set)

    @property
    def is_adopted(self) -> bool:
        """Started by an earlier server."""
        return self._child is None

    @property
    def asked(self) -> frozenset[str]:
        """The models that its requests wait for; a worker that has ended waits for none."""
        return frozenset() if self._gone.is_set() else self._asked

    def configure(self, settings: WorkerSettings, *, board: Path, row: int) -> None:
        """Tell a fresh worker how to serve; ``row`` of the board is its own until it has ended."""
        self.row = row
        self._send(Configure(settings=settings, board=str(board), row=row))

    def has_row_of(self, board: Path) -> bool:
        """Whether it writes a row of this board, given to it by an earlier server."""
        hello = self.hello
        if hello is None or hello.row < 0 or hello.board != str(board):
            return False
        self.row = hello.row
        return True

    def publish(self, table: RouteTable) -> None:
        """Tell the worker what to serve from now on."""
        self._send(Routes(table=table))

    def tell(self, answer: KeyAnswer) -> None:
        """Tell the worker whose a key is."""
        self._send(answer)

    async def greeted(self, *, within_s: float) -> Hello:
        """The worker's first word; ``Internal`` when it ends, ``DeadlinePassed`` in silence."""
        await self._event(self._greeted, what="greet", within_s=within_s)
        if self.hello is None:
            raise Internal(f"worker {self.pid} greeted without a word")
        return self.hello

    async def served(self, *, within_s: float) -> None:
        """Return once it takes connections; raises like ``greeted``."""
        await self._event(self._serving, what="serve", within_s=within_s)

    async def ask_figures(self, *, within_s: float) -> None:
        """Have ``figures`` made anew; they stay as they are where none come in time."""
        if self.hello is not None and self.hello.version != __version__:
            return  # it may not know the question
        self._told.clear()
        self._send(AskFigures())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await _first(self._told, self._gone, self._unlinked)

    async def lost(self) -> None:
        """Return when the process ended or its link broke."""
        await _first(self._gone, self._unlinked)

    async def gone(self, *, within_s: float) -> bool:
        """Whether the process ended within the time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._gone.wait()
        return self._gone.is_set()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to exactly this process, never to a later one with its id."""
        if not self._gone.is_set():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def release(self) -> None:
        """Let go of the link and the watch; the process goes on."""
        self._link.close()
        self._unwatch()
        if self.listener is not None:
            self.listener.close()

    async def _event(self, event: asyncio.Event, *, what: str, within_s: float) -> None:
        try:
            async with asyncio.timeout(within_s):
                await _first(event, self._gone, self._unlinked)
        except TimeoutError as error:
            raise DeadlinePassed(
                f"worker {self.pid} did not {what} within {within_s:g} s"
            ) from error
        if not event.is_set():
            await self.gone(within_s=1.0)
            code = "" if self.exit_code is None else f" with exit code {self.exit_code}"
            raise Internal(f"worker {self.pid} ended{code} before it could {what}")

    def _received(self, body: bytes, fds: tuple[int, ...]) -> None:
        try:
            message = messages.decode(body)
        except msgspec.MsgspecError as error:
            _log.error("link_message_unreadable", worker=self.pid, error=str(error))
            message = None
        if isinstance(message, Hello) and self.listener is None and fds:
            self.hello = message
            self.listener = socket.socket(fileno=fds[0])
            fds = fds[1:]
            self._greeted.set()
        elif isinstance(message, Serving):
            self.table_number = message.table_number
            self._serving.set()
            self._tell_news()
        elif isinstance(message, Wanted):
            self._asked = message.models
            self._tell_news()
        elif isinstance(message, AskKey):
            if self.on_key_asked is not None:
                self.on_key_asked(message.key_hash)
        elif isinstance(message, Figures):
            self.figures = message.samples
            self._told.set()
        for fd in fds:
            os.close(fd)

    def _tell_news(self) -> None:
        if self.on_news is not None:
            self.on_news()

    def _send(self, message: messages.Message) -> None:
        self._link.send(subject=messages.subject(message), body=messages.encode(message))

    def _exited(self) -> None:
        if self._child is not None:
            self.exit_code = self._child.wait()
        self._unwatch()
        self._gone.set()

    def _unwatch(self) -> None:
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1


def spawn(*, command: Sequence[str], run_dir: Path, listener: socket.socket) -> WorkerProcess:
    """Start a worker as a fresh program (grpc is loaded, so no fork) in a session of its own."""
    ours, theirs = links.pair()
    fds = (listener.fileno(), theirs.fileno())
    words = ("--listener-fd", str(fds[0]), "--link-fd", str(fds[1]), "--run-dir", str(run_dir))
    try:
        child = subprocess.Popen(
            [*command, *words],
            pass_fds=fds,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # it outlives us: whoever reads our output must see its end
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return WorkerProcess(link=Link(ours), pid=child.pid, child=child)


def attach(path: Path) -> WorkerProcess:
    """Connect to a living worker's socket; raises ``Unreachable`` when it is a dead one's."""
    link = links.dial(path)
    return WorkerProcess(link=link, pid=link.peer.pid, child=None)


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
