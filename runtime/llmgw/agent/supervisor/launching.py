"""Starting the processes of one shard in order, each once the one before is where it must be.

``shard`` gives the way to start one; this knows the order and the meeting at the leader's port.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from llmgw.agent.engines.contract import Command
from llmgw.agent.supervisor.processes import Process
from llmgw.domain.replicas import ShardSpec
from llmgw.errors import EngineFailed
from llmgw.kit.addresses import Address

_DIAL_INTERVAL_S = 0.2
_DIAL_TIMEOUT_S = 2.0

Spawn = Callable[[int, Command], Process]


class Patience:
    """How long one start waits for the leader's port; ``renew`` begins the time anew."""

    def __init__(self, *, within_s: float) -> None:
        """``within_s`` counts from the last renewal."""
        self.within_s = within_s
        self._renewed_at = 0.0

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be expected any more."""
        return asyncio.get_running_loop().time() - self._renewed_at > self.within_s

    def renew(self) -> None:
        """Whoever gave the order knows that it takes longer: the leader still fetches."""
        self._renewed_at = asyncio.get_running_loop().time()


async def launch(
    commands: Sequence[Command], *, spec: ShardSpec, spawn: Spawn, patience: Patience
) -> None:
    """Start all; ``EngineFailed`` names the process that could not, and leaves the others running.

    A rank other than 0 waits before such a command, as the port is opened on another node; the
    leader waits after it, as this very command opens the port.
    """
    started: list[Process] = []
    for order, command in enumerate(commands):
        is_last = order == len(commands) - 1
        if command.wait_for_leader_port and spec.rank != 0:
            await _meet(command, spec=spec, started=started, patience=patience)
        try:
            started.append(spawn(order, command))
        except EngineFailed as error:
            role = "" if is_last else "sidecar "
            raise EngineFailed(role + error.message) from error
        if command.wait_for_leader_port and spec.rank == 0 and not is_last:
            await _meet(command, spec=spec, started=started, patience=patience)


async def _meet(
    command: Command, *, spec: ShardSpec, started: Sequence[Process], patience: Patience
) -> None:
    """Until the leader's port accepts; a process that dies meanwhile ends the wait."""
    leader = Address(spec.leader_addr, spec.leader_port)
    patience.renew()
    while not await _accepts(leader):
        for process in started:
            if process.has_ended:
                name = process.identity.name
                raise EngineFailed(f"sidecar {name} ended before {leader} accepted")
        if patience.is_over:
            raise EngineFailed(
                f"{command.name}: the leader's port {leader} did not accept within "
                f"{patience.within_s:g} s; look at the replica's first shard, and at firewalls "
                "between the nodes"
            )
        await asyncio.sleep(_DIAL_INTERVAL_S)


async def _accepts(leader: Address) -> bool:
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_DIAL_TIMEOUT_S):
            _, writer = await asyncio.open_connection(leader.host, leader.port)
            writer.close()
            return True
    return False
