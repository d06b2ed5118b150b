"""Workers and their sockets, with real processes and a gateway that only echoes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llmgw.config.settings import GatewaySettings
from llmgw.domain.routes import Endpoint, RouteTable
from llmgw.errors import AlreadyHeld, Internal
from llmgw.kit.addresses import Address
from llmgw.serve import listeners
from llmgw.serve.messages import WorkerSettings
from llmgw.serve.workers import Workers
from tests.fakes import worker_parent

PARENT = Path(worker_parent.__file__)


def workers(run_dir, *, count=1, port=0, number=1, settings=worker_parent.SETTINGS):
    return Workers(
        address=Address("127.0.0.1", port),
        count=count,
        settings=settings,
        run_dir=run_dir,
        table=RouteTable(number=number),
        command=worker_parent.ECHO,
    )


async def ask(url: str) -> tuple[int, int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    pid, number = answer.rpartition(b"\r\n\r\n")[2].split()
    return int(pid), int(number)


async def killed_server(run_dir, *, count=1) -> tuple[str, tuple[int, ...]]:
    """A server that started ``count`` workers and was killed: its address and the workers' pids."""
    words = [sys.executable, PARENT, "--run-dir", run_dir, "--count", str(count)]
    process = await asyncio.create_subprocess_exec(*map(str, words), stdout=subprocess.PIPE)
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 20)
    process.kill()
    await process.wait()
    url, *pids = line.decode().split()
    return url, tuple(map(int, pids))


async def until(truth, *, within_s=10.0):
    end = time.monotonic() + within_s
    while True:
        with contextlib.suppress(OSError, ValueError, IndexError):
            if result := await truth():
                return result
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def run_dir(tmp_path):
    yield tmp_path
    for path in tmp_path.glob("worker-*.sock"):
        with contextlib.suppress(OSError):
            os.kill(int(path.stem.partition("-")[2]), signal.SIGKILL)


async def test_each_worker_serves_the_table_that_it_was_given(run_dir):
    pool = workers(run_dir, count=2, number=7)
    url = await pool.start()
    try:
        assert (await ask(url))[1] == 7
        pool.publish(RouteTable(number=8))
        await until(lambda: _number_is(url, 8))
        assert len(set(pool.pids())) == 2
    finally:
        await pool.close(grace_s=1.0)
    assert not any(is_alive(pid) for pid in pool.pids())
    assert not list(run_dir.glob("worker-*.sock"))


async def test_a_table_of_many_thousand_endpoints_reaches_the_worker(run_dir):
    pool = workers(run_dir)
    url = await pool.start()
    try:
        many = tuple(
            Endpoint(endpoint_id=f"e{i}", url=f"http://10.0.0.1:{i}", models=("a-model-name",))
            for i in range(20_000)
        )
        for number in range(2, 6):
            pool.publish(RouteTable(number=number, endpoints=many))
        await until(lambda: _number_is(url, 5))
        assert len(set(pool.pids())) == 1, "nobody died of it"
    finally:
        await pool.close(grace_s=1.0)


async def test_a_killed_worker_is_followed_by_one_on_the_same_socket(run_dir):
    pool = workers(run_dir)
    url = await pool.start()
    try:
        (first,) = pool.pids()
        os.kill(first, signal.SIGSTOP)
        waiting = [asyncio.ensure_future(ask(url)) for _ in range(40)]
        await asyncio.sleep(0.1)
        os.kill(first, signal.SIGKILL)
        answers = await asyncio.gather(*waiting)
        assert len(answers) == 40
        assert first not in {pid for pid, _ in answers}
    finally:
        await pool.close(grace_s=1.0)


async def test_workers_outlive_their_server_and_are_taken_over_with_their_socket(run_dir):
    url, before = await killed_server(run_dir, count=2)
    assert (await ask(url))[0] in before

    following = workers(run_dir, count=2, port=int(url.rpartition(":")[2]), number=9)
    assert await following.start() == url
    try:
        assert set(following.pids()) == set(before)
        await until(lambda: _number_is(url, 9))
        os.kill(before[0], signal.SIGKILL)
        await until(lambda: _replaced(following, before[0]))
    finally:
        await following.close(grace_s=1.0)
    assert not any(is_alive(pid) for pid in before)


async def test_workers_with_other_settings_go_only_after_their_successor_serves(run_dir):
    url, (old,) = await killed_server(run_dir)
    changed = WorkerSettings(gateway=GatewaySettings(drain_delay_s=0.0, shutdown_grace_s=2.0))
    following = workers(run_dir, port=int(url.rpartition(":")[2]), settings=changed)
    assert await following.start() == url
    try:
        (fresh,) = following.pids()
        assert fresh != old
        await until(lambda: _gone(old))
        assert (await ask(url))[0] == fresh
    finally:
        await following.close(grace_s=1.0)


async def test_more_workers_join_those_that_were_found(run_dir):
    url, before = await killed_server(run_dir)
    following = workers(run_dir, count=3, port=int(url.rpartition(":")[2]))
    await following.start()
    try:
        assert set(before) < set(following.pids())
        assert len(following.pids()) == 3
    finally:
        await following.close(grace_s=1.0)


async def test_a_hung_worker_of_a_dead_server_is_killed_and_replaced(run_dir):
    url, (old,) = await killed_server(run_dir)
    os.kill(old, signal.SIGSTOP)
    following = workers(run_dir, port=int(url.rpartition(":")[2]))
    await following.start()
    try:
        assert not is_alive(old)
        assert (await ask(url))[0] == following.pids()[0]
    finally:
        await following.close(grace_s=1.0)


async def test_a_socket_file_of_a_dead_worker_is_removed(run_dir):
    stale = run_dir / "worker-1.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.bind(str(stale))
        sock.listen()
    pool = workers(run_dir)
    await pool.start()
    try:
        assert not stale.exists()
    finally:
        await pool.close(grace_s=1.0)


async def test_a_worker_that_cannot_start_is_said_at_once_and_leaves_nothing(run_dir, monkeypatch):
    monkeypatch.setenv("ECHO_FAILS", "1")
    pool = workers(run_dir)
    with pytest.raises(Internal, match="did not start"):
        await pool.start()
    assert not list(run_dir.glob("worker-*.sock"))


async def test_an_address_in_use_is_refused_and_its_holder_named(run_dir):
    with listeners.bind(Address("127.0.0.1", 0), key="listen") as taken:
        pool = workers(run_dir, port=listeners.port_of(taken))
        with pytest.raises(AlreadyHeld, match=f"process {os.getpid()}"):
            await pool.start()


async def test_counters_of_all_workers_are_one_and_survive_a_worker(run_dir):
    pool = workers(run_dir, count=2)
    url = await pool.start()
    try:
        for _ in range(20):
            await ask(url)
        page = await pool.metrics_page()
        assert 'llmgw_workload_total{state="completed"} 20' in page
        assert 'llmgw_worker_up{worker="1"} 1' in page
        assert re.search(r"^llmgw_tasks [1-9]\d?$", page, re.MULTILINE)
        assert re.search(r"^llmgw_memory_blocks [1-9]\d{4,}$", page, re.MULTILINE)
        victim = pool.pids()[0]
        os.kill(victim, signal.SIGKILL)
        await until(lambda: _replaced(pool, victim))
        await ask(url)
        assert 'llmgw_workload_total{state="completed"} 21' in await pool.metrics_page()
    finally:
        await pool.close(grace_s=1.0)


async def test_a_worker_that_hangs_is_counted_as_it_was_last_seen(run_dir):
    pool = workers(run_dir)
    url = await pool.start()
    try:
        await ask(url)
        await pool.metrics_page()
        os.kill(pool.pids()[0], signal.SIGSTOP)
        began = time.monotonic()
        assert 'llmgw_workload_total{state="completed"} 1' in await pool.metrics_page()
        assert time.monotonic() - began < 5
        os.kill(pool.pids()[0], signal.SIGCONT)
    finally:
        await pool.close(grace_s=1.0)


async def _number_is(url, number):
    return (await ask(url))[1] == number


async def _replaced(pool, pid):
    return len(pool.pids()) == 2 and pid not in pool.pids()


async def _gone(pid):
    return not is_alive(pid)
