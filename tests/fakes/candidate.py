"""A process that stands for election on a store, and writes when it leads and when no longer.

Run as a program: ``python -m tests.fakes.candidate STORE TTL_S EVERY_S``.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time

from llmgw.config.settings import AuthSettings, LeaderSettings, ServerSettings
from llmgw.serve.leading import Leading

LOOK_S = 0.005


def tell(**said):
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


async def watch(elector, stopped):
    """Say each change, with the last moment at which the old answer was seen."""
    leads, seen_at = False, time.monotonic()
    while not stopped.is_set():
        now, before = elector.is_leader(), seen_at
        seen_at = time.monotonic()
        if now != leads:
            leads = now
            tell(leads=leads, at=seen_at if leads else before, term=elector.term())
        await asyncio.sleep(LOOK_S)


async def main(store, ttl_s, every_s):
    settings = ServerSettings(
        auth=AuthSettings(store=store, store_timeout_s=1.0),
        leader=LeaderSettings(ttl_s=float(ttl_s), every_s=float(every_s)),
    )
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    leading = Leading(settings, environ={})
    watching = asyncio.create_task(watch(leading.elector, stopped))
    await leading.start()
    await watching
    await leading.close()
    tell(leads=False, at=time.monotonic(), term=leading.elector.term())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
