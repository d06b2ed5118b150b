"""Workers that outlived their server: found by their sockets, and ended in order."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from llmgw.errors import LlmgwError, Unavailable, Unreachable
from llmgw.kit import logs
from llmgw.serve import gateway_worker, siblings, worker_process
from llmgw.serve.worker_process import WorkerProcess

_GREET_S = 2.0
_KILL_AFTER_S = 10.0

_log = logs.get(__name__)


async def find(run_dir: Path) -> list[WorkerProcess]:
    """Every worker that lives and answers, linked; one that hangs is killed, for it serves nobody.

    Only who holds the lock of the folder may call it: a worker follows whoever came last.
    """
    found = await asyncio.gather(*(_introduced(path) for path in _sockets(run_dir)))
    _forget_siblings_of_the_dead(run_dir)
    return [worker for worker in found if worker is not None]


async def end(worker: WorkerProcess, *, grace_s: float) -> None:
    """Have a worker drain, and kill it when ``grace_s`` and a little have passed."""
    worker.signal(signal.SIGTERM)
    if not await worker.gone(within_s=grace_s + _KILL_AFTER_S if grace_s else 0.0):
        _log.warning("worker_killed", worker=worker.pid, reason="it did not end in time")
        worker.signal(signal.SIGKILL)
        if not await worker.gone(within_s=_KILL_AFTER_S):
            raise Unavailable(f"worker {worker.pid} does not end, not even by SIGKILL")
    worker.release()


async def reap(run_dir: Path, *, grace_s: float) -> int:
    """End every worker that a dead server left; how many there were."""
    found = await find(run_dir)
    await asyncio.gather(*(end(worker, grace_s=grace_s) for worker in found))
    return len(found)


def _sockets(run_dir: Path) -> list[Path]:
    return sorted(run_dir.glob(gateway_worker.SOCKETS))


def _forget_siblings_of_the_dead(run_dir: Path) -> None:
    living = {gateway_worker.pid_of(path) for path in _sockets(run_dir)}
    for path in run_dir.glob(siblings.SOCKETS):
        if gateway_worker.pid_of(path) not in living:
            _forget(path)


async def _introduced(path: Path) -> WorkerProcess | None:
    try:
        worker = worker_process.attach(path)
    except Unreachable:
        _forget(path)
        return None
    try:
        await worker.greeted(within_s=_GREET_S)
    except LlmgwError as error:
        _log.warning("worker_does_not_answer", worker=worker.pid, error=str(error), action="kill")
        worker.signal(signal.SIGKILL)
        await worker.gone(within_s=_GREET_S)
        worker.release()
        _forget(path)
        return None
    return worker


def _forget(path: Path) -> None:
    path.unlink(missing_ok=True)
