"""A packet connection between server and worker: whole messages, descriptors, a known peer.

Carries bytes and knows no message; ``messages`` gives them meaning.
A packet has one leading byte: the body follows inline, or lies in a sealed memory file sent as the
first descriptor (a packet has a size limit, a route table has none).
What cannot be sent at once waits under its subject, and a newer packet on the same subject replaces
the older: all messages are states, so the queue is bounded by the number of subjects.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from llmgw.errors import Denied, Invalid, Unreachable

_INLINE = b"i"
_IN_MEMORY_FILE = b"m"
_INLINE_BYTES = 64 * 1024
_MAX_FDS = 4
_MAX_PATH_BYTES = 107
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_CREDENTIALS = struct.Struct("3i")
_FD = struct.Struct("i")

OnPacket = Callable[[bytes, tuple[int, ...]], None]
"""Takes a body and the descriptors that came with it, which the callee owns from then on."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end, as the kernel vouches for it."""

    pid: int
    uid: int


class Link:
    """A connected packet socket on the running loop; its end is told once, whoever ends it."""

    def __init__(self, sock: socket.socket) -> None:
        """Own ``sock``; raises ``Denied`` when the peer is another user's process."""
        sock.setblocking(False)
        self._sock = sock
        self._waiting: dict[str, tuple[bytes, tuple[int, ...]]] = {}
        self._loop = asyncio.get_running_loop()
        self._on_packet: OnPacket | None = None
        self._on_closed: Callable[[], None] | None = None
        self.peer = _trusted_peer(sock)

    def start(self, *, on_packet: OnPacket, on_closed: Callable[[], None]) -> None:
        """Begin to read; packets that came earlier are delivered first."""
        self._on_packet, self._on_closed = on_packet, on_closed
        self._loop.add_reader(self._sock.fileno(), self._readable)

    @property
    def is_open(self) -> bool:
        """Neither side has ended it."""
        return self._sock.fileno() >= 0

    def send(self, *, subject: str, body: bytes, fds: tuple[int, ...] = ()) -> None:
        """Send a message soon; descriptors are duplicated, so the caller keeps its own."""
        if not self.is_open:
            return
        is_idle = not self._waiting
        self._drop(self._waiting.pop(subject, None))
        self._waiting[subject] = _packed(body, fds)
        if is_idle:
            self._writable()

    def close(self) -> None:
        """End the connection; ``on_closed`` is called before this returns."""
        if not self.is_open:
            return
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._sock.close()
        for packet in self._waiting.values():
            self._drop(packet)
        self._waiting.clear()
        if self._on_closed is not None:
            self._on_closed()

    def _readable(self) -> None:
        try:
            packet = _receive(self._sock)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if packet is None or self._on_packet is None:
            self.close()
            return
        self._on_packet(*packet)

    def _writable(self) -> None:
        while self._waiting:
            subject, packet = next(iter(self._waiting.items()))
            try:
                _transmit(self._sock, packet)
            except BlockingIOError:
                self._loop.add_writer(self._sock.fileno(), self._writable)
                return
            except OSError:
                self.close()
                return
            del self._waiting[subject]
            self._drop(packet)
        self._loop.remove_writer(self._sock.fileno())

    @staticmethod
    def _drop(packet: tuple[bytes, tuple[int, ...]] | None) -> None:
        for fd in packet[1] if packet else ():
            os.close(fd)


class LinkListener:
    """A unix socket at which one process waits to be found; the file ends with ``close``."""

    def __init__(self, path: Path, *, on_link: Callable[[Link], None]) -> None:
        """Listen at ``path`` for this user's processes; a file left by a dead one is replaced."""
        self.path = path
        self._on_link = on_link
        self._loop = asyncio.get_running_loop()
        self._sock = _bound(path)
        self._loop.add_reader(self._sock.fileno(), self._acceptable)

    def close(self) -> None:
        """Take no more connections and remove the file."""
        if self._sock.fileno() < 0:
            return
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        self.path.unlink(missing_ok=True)

    def _acceptable(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._sock.accept()
            try:
                link = Link(sock)
            except Denied:
                sock.close()
                return
            self._on_link(link)


def dial(path: Path) -> Link:
    """Connect to a listener; raises ``Unreachable`` when nobody listens there any more."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.connect(str(path))
    except OSError as error:
        sock.close()
        raise Unreachable(f"no process answers at {path}: {error.strerror}") from error
    return Link(sock)


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected packet sockets, one to be handed to a process that is being started."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def check_path(path: Path) -> None:
    """``Invalid`` when a unix socket cannot have this path."""
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise Invalid(
            f"run_dir: {path} is longer than {_MAX_PATH_BYTES} bytes, the limit of a unix socket; "
            "use a shorter folder"
        )


def _trusted_peer(sock: socket.socket) -> Peer:
    packed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(packed)
    if uid not in (os.geteuid(), 0):
        raise Denied(f"process {pid} of user {uid} may not join a link of user {os.geteuid()}")
    return Peer(pid=pid, uid=uid)


def _bound(path: Path) -> socket.socket:
    check_path(path)
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.bind(str(path))
        path.chmod(0o600)
        sock.listen()
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def _packed(body: bytes, fds: tuple[int, ...]) -> tuple[bytes, tuple[int, ...]]:
    own = tuple(os.dup(fd) for fd in fds)
    if len(body) <= _INLINE_BYTES:
        return _INLINE + body, own
    return _IN_MEMORY_FILE, (_memory_file(body), *own)


def _memory_file(body: bytes) -> int:
    fd = os.memfd_create("llmgw-link", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(fd, "wb", buffering=0, closefd=False) as file:
        view = memoryview(body)
        while view:
            view = view[file.write(view) :]
        file.seek(0)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    return fd


def _transmit(sock: socket.socket, packet: tuple[bytes, tuple[int, ...]]) -> None:
    body, fds = packet
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([body], rights)


def _receive(sock: socket.socket) -> tuple[bytes, tuple[int, ...]] | None:
    """The next packet; nothing at the end of the connection or when one came cut."""
    space = socket.CMSG_SPACE(_MAX_FDS * _FD.size)
    body, ancillary, flags, _ = sock.recvmsg(_INLINE_BYTES + 1, space, socket.MSG_CMSG_CLOEXEC)
    fds = [
        fd
        for _, _, rights in ancillary
        for (fd,) in _FD.iter_unpack(rights[: len(rights) // _FD.size * _FD.size])
    ]
    is_whole = body and not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
    if is_whole and body[:1] == _INLINE:
        return body[1:], tuple(fds)
    if is_whole and body[:1] == _IN_MEMORY_FILE and fds:
        with os.fdopen(fds[0], "rb", buffering=0) as file:
            return file.readall(), tuple(fds[1:])
    for fd in fds:
        os.close(fd)
    return None
