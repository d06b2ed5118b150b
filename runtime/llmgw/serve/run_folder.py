"""The folder in which a server, or a gateway on a host of its own, meets its workers.

One process at a time owns it, by the lock in it; it finds there the workers of the one before.
"""

from __future__ import annotations

from pathlib import Path

from llmgw.config.settings import GatewaySettings
from llmgw.serve import gateway_worker, link, locks, survivors
from llmgw.serve.locks import HeldLock

_LONGEST_PID = 4_194_304


def held(run_dir: Path) -> HeldLock:
    """Own the folder; ``AlreadyHeld`` names who does, ``Invalid`` where it is of no use."""
    link.check_path(gateway_worker.socket_path(run_dir, pid=_LONGEST_PID))
    return locks.hold(run_dir / "server.lock", what=f"run_dir {run_dir}")


async def reap(run_dir: Path, *, stopping: GatewaySettings) -> int:
    """End the workers that a killed owner left; how many there were.

    ``AlreadyHeld`` while an owner lives.
    """
    with held(run_dir):
        return await survivors.reap(
            run_dir, grace_s=stopping.drain_delay_s + stopping.shutdown_grace_s
        )
