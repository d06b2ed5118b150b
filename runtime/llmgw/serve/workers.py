"""The gateway workers of one server: found or started, watched, replaced, told each new table.

The server keeps every listening socket open: a worker that dies is followed by one on the same
socket, so connections that wait there are answered.
Workers left by a killed server are taken over with their sockets; those of another version, address
or settings go on until their successor serves.
"""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from llmgw import __version__
from llmgw.domain.routes import RouteTable
from llmgw.domain.traffic import Traffic
from llmgw.errors import Internal
from llmgw.gateway import board_layout, families
from llmgw.kit import logs, metrics
from llmgw.kit.addresses import Address
from llmgw.kit.backoff import Backoff
from llmgw.kit.metrics import Sample
from llmgw.kit.subscribers import Subscribers
from llmgw.kit.tasks import Tasks
from llmgw.serve import listeners, siblings, survivors, worker_process
from llmgw.serve.boards import HostBoard
from llmgw.serve.figure_book import FigureBook
from llmgw.serve.messages import KeyAnswer, WorkerSettings
from llmgw.serve.worker_process import WorkerProcess

COMMAND = (sys.executable, "-m", "llmgw", "worker")
"""The program of a worker."""

_SERVE_S = 30.0
_STEADY_S = 10.0
_EXIT_S = 0.2
_ASK_EVERY_S = 5.0
_TELL_S = 1.0
_RESTARTS = Backoff(base_s=0.2, max_s=10.0)

_log = logs.get(__name__)


class Access(Protocol):
    """What a host's server does about keys and limits; ``host_access.HostAccess`` fits."""

    def open(self, *, rows: Iterable[int]) -> None:
        """Have the limits board, with these rows of the load board taken by living workers."""
        ...

    def seat(self, row: int) -> None:
        """A worker is about to have this row."""
        ...

    def leave(self, row: int, *, pid: int) -> None:
        """The worker that had it has ended."""
        ...

    async def answer(self, key_hash: str) -> KeyAnswer:
        """Whose a key is; within a bound, and never raises."""
        ...


@dataclass(slots=True)
class _Seat:
    """A place for one worker: its socket stays, its workers come and go."""

    listener: socket.socket
    found: WorkerProcess | None = None
    current: WorkerProcess | None = None
    first: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Workers:
    """All workers on one address."""

    def __init__(
        self,
        *,
        address: Address,
        count: int,
        settings: WorkerSettings,
        run_dir: Path,
        table: RouteTable,
        command: Sequence[str] = COMMAND,
    ) -> None:
        """``table`` is served first; nothing is opened or started before ``start``."""
        self._access: Access | None = None
        self._address = address
        self._count = count
        self._settings = settings
        self._run_dir = run_dir
        self._table = table
        self._command = tuple(command)
        self._board: HostBoard | None = None
        self._figures = FigureBook(families.FAMILIES)
        self._tasks = Tasks(owner="workers")
        self._seats: list[_Seat] = []
        self._leaving: set[WorkerProcess] = set()
        self._on_news: Subscribers[Callable[[], None]] = Subscribers()

    def ask_keys_of(self, access: Access) -> None:
        """Have the workers ask for keys; before ``start``, and as their settings say."""
        self._access = access

    async def start(self) -> str:
        """Take over what lives, start what is missing; returns the address once all of them serve.

        When that fails, what was started is ended, what was found serves on, and it raises.
        """
        found = await survivors.find(self._run_dir)
        usable = [worker for worker in found if self._is_usable(worker)]
        leaving = [w for w in found if w not in usable[: self._count]]
        try:
            self._board = _board_of(found, run_dir=self._run_dir)
            self._board.list(self._table)
            if self._access is not None:
                self._access.open(rows=[w.row for w in found if w.row is not None])
            self._seats = self._seated_at(self._sockets((*usable, *leaving)), found=usable)
            self._leaving.update(leaving)
            for worker in leaving:
                worker.on_key_asked = partial(self._look_up, worker)
            for number, seat in enumerate(self._seats):
                self._tasks.spawn(f"seat-{number}", self._keep(seat))
            await _all(seat.first for seat in self._seats)
            self._tasks.spawn("figures", self._ask_on())
        except BaseException:
            await self._tasks.close()
            await self._undo(found)
            raise
        for worker in leaving:
            self._tasks.spawn(f"farewell-{worker.pid}", self._bid_farewell(worker))
        return listeners.shown(self._seats[0].listener)

    def publish(self, table: RouteTable) -> None:
        """Tell every worker, those that leave too: their requests may be retried elsewhere."""
        self._table = table
        if self._board is not None:
            self._board.list(table)
        for worker in (*self._living(), *self._leaving):
            worker.publish(table)

    def traffic(self) -> Traffic:
        """See ``control.reconciler.ports.Gateways``."""
        workers = (*self._living(), *self._leaving)
        number = self._table.number
        return Traffic(
            endpoints=self._board.traffic() if self._board is not None else {},
            asked=frozenset[str]().union(*(worker.asked for worker in workers)),
            # One without a row counts elsewhere, so nothing is known of what it has under way.
            has_latest_table=bool(workers)
            and all(one.row is not None and one.table_number == number for one in workers),
        )

    def subscribe(self, on_news: Callable[[], None]) -> Callable[[], None]:
        """See ``control.reconciler.ports.Gateways``."""
        return self._on_news.add(on_news)

    def worked(self, endpoint_id: str, *, worked_at: float | None, looked_at: float) -> None:
        """See ``control.reconciler.ports.Gateways``."""
        if self._board is not None:
            self._board.worked(endpoint_id, worked_at=worked_at, looked_at=looked_at)

    async def metrics_page(self) -> str:
        """See ``api.ports.MetricsPage``: of all workers, those that ended included."""
        await self._ask_figures()
        up = [
            Sample("llmgw_worker_up", (str(number),), float(seat.current is not None))
            for number, seat in enumerate(self._seats)
        ]
        return metrics.render((*self._figures.together(), *up), families.FAMILIES)

    def pids(self) -> tuple[int, ...]:
        """Processes that take connections."""
        return tuple(worker.pid for worker in self._living())

    async def close(self, *, grace_s: float) -> None:
        """Drain and end every worker within ``grace_s`` and a little; then kill what is left."""
        await self._tasks.close()
        workers = (*self._living(), *self._leaving)
        await asyncio.gather(*(self._end(worker, grace_s=grace_s) for worker in workers))
        self._close_sockets()

    def hurry(self) -> None:
        """Have workers that drain cut what still runs."""
        for worker in (*self._living(), *self._leaving):
            worker.signal(signal.SIGTERM)

    def _sockets(self, found: Sequence[WorkerProcess]) -> list[socket.socket]:
        fitting = [w.listener for w in found if w.listener is not None and self._fits(w.listener)]
        kept = [listener.dup() for listener in fitting[: self._count]]
        try:
            return listeners.bind_shared(self._address, key="listen", count=self._count, kept=kept)
        except BaseException:
            for listener in kept:
                listener.close()
            raise

    @staticmethod
    def _seated_at(
        sockets: Sequence[socket.socket], *, found: Sequence[WorkerProcess]
    ) -> list[_Seat]:
        """Seats for all sockets; the first are those of the found workers, in their order."""
        seats = [_Seat(listener=listener) for listener in sockets]
        for seat, worker in zip(seats, found, strict=False):  # there may be more of either
            seat.found = worker
        return seats

    async def _undo(self, found: Sequence[WorkerProcess]) -> None:
        for worker in {*self._living(), *self._leaving, *found}:
            if worker.is_adopted:
                worker.release()
            else:
                await self._end(worker, grace_s=0.0)
        self._close_sockets()

    def _is_usable(self, worker: WorkerProcess) -> bool:
        hello, listener = worker.hello, worker.listener
        if hello is None or listener is None or not hello.is_serving:
            return False
        is_alike = hello.version == __version__ and hello.digest == self._settings.digest()
        return (
            is_alike
            and self._fits(listener)
            and hello.board == str(board_layout.path(self._run_dir))
        )

    def _fits(self, listener: socket.socket) -> bool:
        return listeners.is_at(listener, self._address)

    async def _keep(self, seat: _Seat) -> None:
        """Fill a seat again and again; only a fresh worker that fails at first ends the start."""
        loop, attempt = asyncio.get_running_loop(), 0
        while True:
            since = loop.time()
            try:
                worker = await self._seated(seat)
                await worker.lost()
                await worker.gone(within_s=_EXIT_S)
                _log.error("worker_lost", worker=worker.pid, exit_code=worker.exit_code)
            except Exception as error:  # noqa: BLE001 - the seat must be filled whatever happened
                is_adopted = seat.current is not None and seat.current.is_adopted
                if not seat.first.done() and not is_adopted:
                    seat.first.set_exception(Internal(f"a gateway worker did not start: {error}"))
                    return
                _log.error("worker_not_started", error=str(error))
            self._dismiss(seat)
            attempt = 0 if loop.time() - since >= _STEADY_S else attempt + 1
            if attempt > 1:
                draw = random.random()  # noqa: S311 - jitter is no secret
                await asyncio.sleep(_RESTARTS.delay_s(attempt=attempt - 2, draw=draw))

    async def _seated(self, seat: _Seat) -> WorkerProcess:
        worker, seat.found = seat.found, None
        if worker is None:
            worker = seat.current = self._spawned(seat.listener)
        seat.current = worker
        worker.on_news = self._tell_news
        worker.on_key_asked = partial(self._look_up, worker)
        worker.publish(self._table)
        await worker.served(within_s=_SERVE_S)
        _log.info(
            "worker_serving",
            worker=worker.pid,
            adopted=worker.is_adopted,
            table=worker.table_number,
        )
        if not seat.first.done():
            seat.first.set_result(None)
        return worker

    def _spawned(self, listener: socket.socket) -> WorkerProcess:
        if self._board is None:
            raise Internal("workers have no board before they are started")
        row = self._board.seat_row()
        if self._access is not None:
            self._access.seat(row)
        try:
            worker = worker_process.spawn(
                command=self._command, run_dir=self._run_dir, listener=listener
            )
        except BaseException:
            self._board.free_row(row)
            raise
        worker.configure(self._settings, board=self._board.path, row=row)
        return worker

    async def _ask_on(self) -> None:
        """Know what each counts also where nobody looks: a worker may be killed any time."""
        while True:
            await asyncio.sleep(_ASK_EVERY_S)
            await self._ask_figures()

    async def _ask_figures(self) -> None:
        workers = (*self._living(), *self._leaving)
        await asyncio.gather(*(worker.ask_figures(within_s=_TELL_S) for worker in workers))
        for worker in workers:
            if worker.row is not None:
                self._figures.note(worker.pid, worker.figures)

    async def _end(self, worker: WorkerProcess, *, grace_s: float) -> None:
        """Have it drain and end; then, and only then, somebody else may empty its row."""
        await survivors.end(worker, grace_s=grace_s)
        siblings.forget(self._run_dir, pid=worker.pid)
        self._figures.note(worker.pid, worker.figures)
        self._figures.end(worker.pid)
        if self._board is not None and worker.row is not None:
            if self._access is not None:
                self._access.leave(worker.row, pid=worker.pid)
            self._board.free_row(worker.row)
            worker.row = None

    def _look_up(self, worker: WorkerProcess, key_hash: str) -> None:
        if self._access is not None:
            self._tasks.spawn("key", self._tell_key(self._access, worker, key_hash))

    @staticmethod
    async def _tell_key(access: Access, worker: WorkerProcess, key_hash: str) -> None:
        worker.tell(await access.answer(key_hash))

    def _tell_news(self) -> None:
        for on_news in self._on_news:
            on_news()

    def _dismiss(self, seat: _Seat) -> None:
        worker, seat.current = seat.current, None
        if worker is not None:
            self._leaving.add(worker)
            self._tasks.spawn(f"farewell-{worker.pid}", self._bid_farewell(worker))

    async def _bid_farewell(self, worker: WorkerProcess) -> None:
        drain = self._settings.gateway
        await self._end(worker, grace_s=drain.drain_delay_s + drain.shutdown_grace_s)
        self._leaving.discard(worker)

    def _living(self) -> list[WorkerProcess]:
        return [w for seat in self._seats if (w := seat.current or seat.found) is not None]

    def _close_sockets(self) -> None:
        for seat in self._seats:
            seat.listener.close()
        self._seats = []
        self._leaving.clear()


def _board_of(found: Sequence[WorkerProcess], *, run_dir: Path) -> HostBoard:
    """The board of the run folder, with the rows of the workers that live."""
    path = board_layout.path(run_dir)
    rows = [worker.row for worker in found if worker.has_row_of(path) and worker.row is not None]
    return HostBoard.opened(run_dir, rows=rows)


async def _all(futures: Iterable[asyncio.Future[None]]) -> None:
    """Wait for every one, then raise the first error; none is left unread."""
    for outcome in await asyncio.gather(*futures, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
