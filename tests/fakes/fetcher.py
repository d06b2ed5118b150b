"""One fetch as a process of its own: ``python -m tests.fakes.fetcher --folder DIR --source URL``.

Prints one line of JSON: the path or the error, and what lies in the folder afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path

from llmgw.agent.weights.fetching import Weights
from llmgw.agent.weights.retrying import Retries
from llmgw.config.tending import WeightsSettings
from llmgw.errors import LlmgwError
from llmgw.kit.backoff import Backoff
from llmgw.kit.clock import SystemClock

ROOT = Path(__file__).resolve().parents[2]


def command(folder, source, *options):
    """The words that start it."""
    return (
        sys.executable,
        "-m",
        __spec__.name,
        "--folder",
        str(folder),
        "--source",
        source,
        *options,
    )


async def started(folder, source, *options, before=()):
    """A process that fetches; ``before`` are words that start it, such as those of ``unshare``."""
    return await asyncio.create_subprocess_exec(
        *(*before, *command(folder, source, *options)),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=asyncio.subprocess.PIPE,
    )


async def outcome(process):
    """What it printed."""
    out, _ = await process.communicate()
    return json.loads(out)


def shelf(folder, *, shared=False, keep_free=0, tries=5, hub_url="http://127.0.0.1:9"):
    """Downloads into a folder, tried again without delay."""
    return Weights(
        folder=str(folder),
        clock=SystemClock(),
        settings=WeightsSettings(hub_url=hub_url, shared=shared, keep_free=keep_free),
        retries=Retries(tries=tries, backoff=Backoff(base_s=0.01, max_s=0.02)),
    )


async def fetch(arguments: argparse.Namespace) -> dict[str, object]:
    made = shelf(
        arguments.folder,
        shared=arguments.shared,
        keep_free=arguments.keep_free,
        hub_url=arguments.hub,
        tries=1,
    )
    try:
        path = await made.ensure(arguments.source, on_progress=lambda progress: None)
    except LlmgwError as error:
        return {"error": error.message, "code": error.code}
    finally:
        await made.close()
    return {"path": path}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--hub", default="http://127.0.0.1:9")
    parser.add_argument("--keep-free", type=int, default=0)
    arguments = parser.parse_args()
    told = asyncio.run(fetch(arguments))
    files = {path.name: path.stat().st_size for path in Path(arguments.folder).iterdir()}
    free = os.statvfs(arguments.folder)
    sys.stdout.write(
        json.dumps({**told, "files": files, "free": free.f_bavail * free.f_frsize}) + "\n"
    )


if __name__ == "__main__":
    main()
