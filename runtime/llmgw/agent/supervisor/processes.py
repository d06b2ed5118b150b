"""One engine process and all that it brings forth: started or adopted, watched, signalled, ended.

``shard`` composes these. Each process leads its own session, carries an environment variable that
its descendants inherit, and is watched through a pidfd, so no step can hit a stranger's pid.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from llmgw.agent.engines.contract import Command
from llmgw.agent.supervisor import cgroups, kinship
from llmgw.agent.supervisor.kinship import Identity, Known
from llmgw.errors import EngineFailed
from llmgw.kit import logs, proctable

KILL_WAIT_S = 5.0
_SWEEP_INTERVAL_S = 0.05
_log = logs.get(__name__)


class Process:
    """A living leader of a session; ``on_exit`` is called once, on the loop, when it has ended."""

    def __init__(self, identity: Identity, *, mark: str, pidfd: int) -> None:
        """Use ``spawn`` or ``adopt``."""
        self.identity = identity
        self.exit_code: int | None = None
        self._mark = mark
        self._pidfd = pidfd
        self._ended = asyncio.Event()
        self._on_exit: Callable[[], None] | None = None
        self._kin: Known = frozenset()
        asyncio.get_running_loop().add_reader(pidfd, self._exited)

    @property
    def has_ended(self) -> bool:
        """Whether the leader itself is gone; its descendants may live on."""
        return self._ended.is_set()

    def watch(self, on_exit: Callable[[], None]) -> None:
        """Say who is told of the exit; at once when it has already happened."""
        self._on_exit = on_exit
        if self.has_ended:
            asyncio.get_running_loop().call_soon(on_exit)

    async def wait(self, *, timeout_s: float) -> bool:
        """Whether the leader has ended within that time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    def signal_group(self, number: signal.Signals) -> None:
        """Signal the leader and its group; nothing happens once the leader has ended."""
        if self.has_ended:
            return
        with contextlib.suppress(ProcessLookupError):
            # An unreaped leader keeps its pid, so the group cannot be a stranger's.
            signal.pidfd_send_signal(self._pidfd, 0)
            os.killpg(self.identity.pid, number)

    async def stop(self, *, timeout_s: float) -> None:
        """SIGTERM, then SIGKILL for the leader and whatever it left behind."""
        self.signal_group(signal.SIGTERM)
        await self.wait(timeout_s=timeout_s)
        await self.end()

    async def end(self) -> bool:
        """SIGKILL the leader, its group, session and marked descendants; false if any survives.

        The exit code is read last: an unreaped leader holds its pid while strangers are told apart.
        """
        rest = await sweep(self.identity, mark=self._mark, kin=self._kin)
        await self.wait(timeout_s=KILL_WAIT_S)
        self._reap()
        if rest:
            _log.error("processes_survive_kill", name=self.identity.name, pids=rest)
        return not rest and self.has_ended

    def release(self) -> None:
        """Stop watching and leave the process as it is."""
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def pids(self) -> list[int]:
        """The leader and its running descendants; read from the whole list of processes."""
        return [found.pid for found in self.members(kinship.Census())]

    def is_paused(self) -> bool:
        """Whether a signal has stopped it with all its descendants, so that nothing gets on."""
        leader = None if self.has_ended else proctable.entry(self.identity.pid)
        if leader is None or not leader.is_paused:
            return False
        return all(found.is_paused for found in self.members(kinship.Census()))

    def members(self, census: kinship.Census) -> list[proctable.Entry]:
        """The leader and its descendants among these; who is found once is remembered."""
        found = census.of((self.identity,), mark=self._mark, known=self._kin)
        self._kin = kinship.known(found)
        return found

    def _exited(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        self._ended.set()
        if self._on_exit is not None:
            self._on_exit()

    def _reap(self) -> None:
        """Read the exit code; that of an adopted process is not to be had (``ECHILD``)."""
        if self._pidfd < 0:
            return
        with contextlib.suppress(ChildProcessError):
            result = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG)
            if result is not None:
                is_exit = result.si_code == os.CLD_EXITED
                self.exit_code = result.si_status if is_exit else -result.si_status


def spawn(command: Command, *, folder: Path, output: Path, mark: str) -> Process:
    """Start a process in its own session, adding to ``output``; raises ``EngineFailed``."""
    try:
        with output.open("ab", buffering=0) as log:
            child = subprocess.Popen(
                [command.path, *command.args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**command.env, kinship.MARK_VARIABLE: mark},
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        raise EngineFailed(_cannot_start(command, error)) from error
    # The child is watched and reaped through its pidfd; this keeps Popen's destructor from both.
    child.returncode = 0
    pidfd = os.pidfd_open(child.pid)
    cgroups.enter(child.pid, mark=mark)
    found = proctable.entry(child.pid)
    ticks = found.start_ticks if found is not None else 0
    return Process(Identity(command.name, child.pid, ticks), mark=mark, pidfd=pidfd)


def adopt(identity: Identity, *, mark: str) -> Process | None:
    """Watch a process that an earlier agent of this boot started, or nothing if it has ended."""
    try:
        pidfd = os.pidfd_open(identity.pid)
    except (ProcessLookupError, OverflowError, ValueError):
        return None
    # Opened first, compared after: from here on the pid cannot become another process unseen.
    found = proctable.entry(identity.pid)
    if found is None or not found.is_running or found.start_ticks != identity.start_ticks:
        os.close(pidfd)
        return None
    return Process(identity, mark=mark, pidfd=pidfd)


async def sweep(identity: Identity | None, *, mark: str, kin: Known = frozenset()) -> list[int]:
    """SIGKILL every process of a shard until none is left; those that survive are returned."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + KILL_WAIT_S
    while found := await asyncio.to_thread(_members, identity, mark=mark, kin=kin):
        kin |= kinship.known(found)
        if loop.time() > give_up_at:
            return [one.pid for one in found]
        for one in found:
            _kill(one)
        await asyncio.sleep(_SWEEP_INTERVAL_S)
    await asyncio.to_thread(functools.partial(cgroups.leave, mark=mark))
    return []


def _members(identity: Identity | None, *, mark: str, kin: Known) -> list[proctable.Entry]:
    leaders = () if identity is None else (identity,)
    return kinship.Census().of(leaders, mark=mark, known=kin)


def _kill(found: proctable.Entry) -> None:
    try:
        pidfd = os.pidfd_open(found.pid)
    except ProcessLookupError:
        return
    try:
        again = proctable.entry(found.pid)
        if again is not None and again.start_ticks == found.start_ticks:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:
        _log.warning("kill_refused", pid=found.pid, command=proctable.command_name(found.pid))
    finally:
        os.close(pidfd)


def _cannot_start(command: Command, error: OSError | ValueError) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (
        f"{command.name}: cannot start {command.path}: {reason}; "
        "install the engine or name its program under engines in the agent's settings"
    )
