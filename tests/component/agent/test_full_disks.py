"""A full disk: output still makes room for itself, and nothing starts that would be lost."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from pathlib import Path

import pytest

from llmgw.agent.supervisor.output import Output
from llmgw.domain.replicas import ShardState
from tests.fakes.agents import parts, spec
from tests.fakes.engines import free_port

DISK_BYTES = 6 * 1024 * 1024
MAX_LOG_BYTES = 4 * 1024 * 1024


async def on_a_small_disk(folder):
    """Run ``main`` of this module on a filesystem that is gone with the process; what it wrote."""
    tried = await asyncio.create_subprocess_exec("unshare", "-Urm", "true")
    if await tried.wait():
        pytest.skip("no namespaces here")
    mount = f'mount -t tmpfs -o size={DISK_BYTES} none "{folder}" && exec "$@"'
    words = ("unshare", "-Urm", "sh", "-c", mount, "sh", sys.executable, "-m", __name__, folder)
    made = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    told, _ = await made.communicate()
    assert made.returncode == 0
    return told.decode().splitlines()


def main(folder):
    """Fill the disk as an engine does, trim, and say what became of it."""
    output = Output(folder / "demo-1.0", max_lines=50)
    path = output.file(order=0, name="engine")
    with path.open("ab", buffering=0) as engine:
        count = 0
        try:
            while True:
                count += 1
                engine.write(b"line %d\n" % count)
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017 - this is no test
        output.trim(max_bytes=MAX_LOG_BYTES)
        free_bytes = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        engine.write(b"goes on\n")
    names = sorted(one.name for one in path.parent.iterdir())
    newest = output.tail(2)
    sys.stdout.write("\n".join([str(free_bytes), str(count), " ".join(names), *newest]) + "\n")


async def test_output_that_fills_the_disk_is_trimmed_and_its_newest_lines_stay(tmp_path):
    free_bytes, count, names, before, last = await on_a_small_disk(tmp_path)
    assert int(free_bytes) > DISK_BYTES // 2
    assert names == "00-engine.log 00-engine.log.1"
    assert last.endswith("goes on")  # after the line in which the disk was full
    assert int(before.removeprefix("[engine] line ")) >= int(count) - 2


async def test_nothing_is_started_that_no_later_agent_could_find(tmp_path):
    async with parts(tmp_path) as agent:
        (agent.work_dir / "shard-demo-1.0.json.tmp").mkdir()  # so that no state can be written
        agent.orders.start(spec(port=free_port()))
        report = await agent.until(ShardState.FAILED)
        assert "without it no engine is started" in report.error
        assert "supervisor.work_dir" in report.error
        assert agent.states() == ["pending", "failed"]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
