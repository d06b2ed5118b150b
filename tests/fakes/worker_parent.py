"""A server that is nothing but its workers, to be killed: prints address and pids, then waits."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from llmgw.config.settings import GatewaySettings
from llmgw.domain.routes import RouteTable
from llmgw.kit import logs
from llmgw.kit.addresses import Address
from llmgw.serve.messages import WorkerSettings
from llmgw.serve.workers import Workers

ECHO = (sys.executable, str(Path(__file__).parent / "echo_worker.py"))
SETTINGS = WorkerSettings(gateway=GatewaySettings(drain_delay_s=0.0, shutdown_grace_s=1.0))


async def run(*, run_dir: Path, count: int) -> None:
    pool = Workers(
        address=Address("127.0.0.1", 0),
        count=count,
        settings=SETTINGS,
        run_dir=run_dir,
        table=RouteTable(number=1),
        command=ECHO,
    )
    url = await pool.start()
    print(url, *pool.pids(), flush=True)  # noqa: T201
    await asyncio.Event().wait()


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--run-dir", type=Path, required=True)
    words.add_argument("--count", type=int, default=1)
    given = words.parse_args()
    logs.setup()
    asyncio.run(run(run_dir=given.run_dir, count=given.count))


if __name__ == "__main__":
    main()
