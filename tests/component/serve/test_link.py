"""The link between server and worker."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from llmgw.errors import Invalid, Unreachable
from llmgw.serve import link as links
from llmgw.serve.link import Link, LinkListener


class End:
    """One end of a link, with all that came in."""

    def __init__(self, sock):
        self.link = Link(sock)
        self.packets = asyncio.Queue()
        self.is_closed = asyncio.Event()
        self.link.start(
            on_packet=lambda body, fds: self.packets.put_nowait((body, fds)),
            on_closed=self.is_closed.set,
        )

    def send(self, body, *, subject="s", fds=()):
        self.link.send(subject=subject, body=body, fds=fds)

    async def next(self):
        async with asyncio.timeout(5):
            return await self.packets.get()


@pytest.fixture
async def ends():
    one, other = map(End, links.pair())
    yield one, other
    one.link.close()
    other.link.close()


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 5_000_000])
async def test_a_message_of_any_size_comes_whole(ends, size):
    one, other = ends
    body = os.urandom(size)
    one.send(body)
    assert await other.next() == (body, ())


@pytest.mark.parametrize("size", [10, 100_000])
async def test_descriptors_come_along_and_the_sender_keeps_its_own(ends, size):
    one, other = ends
    reading, writing = os.pipe()
    one.send(bytes(size), fds=(writing,))
    body, [fd] = await other.next()
    assert len(body) == size
    assert not os.get_inheritable(fd)
    os.write(fd, b"x")
    assert os.read(reading, 1) == b"x"
    for each in (reading, writing, fd):
        os.close(each)


async def test_for_a_peer_that_does_not_read_only_the_newest_of_a_subject_waits(ends):
    one, other = ends
    other.link._loop.remove_reader(other.link._sock.fileno())
    for number in range(2000):
        one.send(str(number).encode().ljust(1000), subject="state")
    one.send(b"once", subject="other")
    assert len(one.link._waiting) == 2
    other.link._loop.add_reader(other.link._sock.fileno(), other.link._readable)
    seen = [(await other.next())[0].strip() for _ in range(2)]
    while seen[-1] != b"once":
        seen.append((await other.next())[0].strip())
    assert seen[-2] == b"1999"
    assert len(seen) < 2000


async def test_both_ends_learn_of_an_end_once(ends):
    one, other = ends
    one.link.close()
    one.link.close()
    async with asyncio.timeout(5):
        await other.is_closed.wait()
    assert not other.link.is_open
    other.send(b"into the void")


async def test_a_listener_is_found_by_its_file_and_knows_who_dials(tmp_path):
    arrived = asyncio.Queue()
    listener = LinkListener(tmp_path / "w.sock", on_link=arrived.put_nowait)
    assert (tmp_path / "w.sock").stat().st_mode & 0o777 == 0o600
    dialled = links.dial(tmp_path / "w.sock")
    async with asyncio.timeout(5):
        accepted = await arrived.get()
    assert accepted.peer.pid == dialled.peer.pid == os.getpid()
    for each in (dialled, accepted, listener):
        each.close()
    assert not (tmp_path / "w.sock").exists()


async def test_a_listener_takes_the_place_of_a_dead_ones_file(tmp_path):
    path = tmp_path / "w.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(path))
    with pytest.raises(Unreachable):
        links.dial(path)
    LinkListener(path, on_link=lambda link: link.close()).close()


async def test_a_folder_too_deep_for_a_socket_is_a_mistake_of_the_settings(tmp_path):
    with pytest.raises(Invalid, match="run_dir"):
        links.check_path(tmp_path / ("x" * 100) / "worker-1.sock")
