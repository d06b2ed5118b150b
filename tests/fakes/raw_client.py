"""A client that sends what a test says, byte for byte, and keeps what comes back as it came."""

from __future__ import annotations

import asyncio
import enum
import socket
import struct

import httptools
import orjson

from tests.fakes.waiting import Changes

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_WITHIN_S = 9.0


class End(enum.Enum):
    """How the connection ended."""

    CLOSED = "closed"
    RESET = "reset"


def post(body, *fields, path="/v1/chat/completions", host="Host: gateway"):
    """A request for a model; ``body`` is made JSON unless it is bytes."""
    body = body if isinstance(body, bytes) else orjson.dumps(body)
    lines = [f"POST {path} HTTP/1.1", host, f"Content-Length: {len(body)}", *fields, "", ""]
    return "\r\n".join(lines).encode() + body


def get(path, *fields, method="GET"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: gateway", *fields, "", ""]).encode()


class Answer:
    """One answer as a client understands it; ``fields`` has names in lower case."""

    def __init__(self):
        self.status = 0
        self.reason = b""
        self.fields = []
        self.body = bytearray()
        self.is_complete = False

    def __getitem__(self, name):
        """The one value of a field, ``None`` without it."""
        values = [value for field, value in self.fields if field == name.lower()]
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None

    @property
    def json(self):
        return orjson.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    @property
    def code(self):
        return self.error["code"]


class RawClient(asyncio.Protocol):
    """One connection; ``raw`` is all that ever came, ``interim`` holds the 1xx answers.

    With ``parses`` unset nothing but ``raw`` is kept.
    """

    def __init__(self):
        self._parser = httptools.HttpResponseParser(self)
        self._answers = []
        self._current = None
        self._changes = Changes()
        self.raw = bytearray()
        self.interim = []
        self.ended = None
        self.parses = True

    @classmethod
    async def connect(cls, port, *, buffer_bytes=None):
        """Connect; ``buffer_bytes`` makes the kernel take little ahead of the reader."""
        sock = socket.socket(proto=socket.IPPROTO_TCP)
        if buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_connect(sock, ("127.0.0.1", port))
        except OSError:
            sock.close()
            raise
        _, client = await loop.create_connection(cls, sock=sock)
        return client

    def send(self, data):
        self._transport.write(data)

    def half_close(self):
        self._transport.write_eof()

    def leave(self):
        """Close as a program does that ends."""
        self._transport.abort()

    def reset(self):
        if self.ended is not None:
            return
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()

    def stop_reading(self):
        self._transport.pause_reading()

    def read_on(self):
        self._transport.resume_reading()

    async def until(self, condition, *, within_s=_WITHIN_S):
        await self._changes.until(condition, within_s=within_s)

    async def got(self, part, *, within_s=_WITHIN_S):
        """Wait until ``part`` is among what came."""
        await self.until(lambda: part in self.raw or self.ended, within_s=within_s)
        assert part in self.raw

    async def answer(self, *, within_s=_WITHIN_S):
        """The next final answer: whole, or as far as it came before the connection ended."""
        await self.until(lambda: self._next() is not None or self.ended, within_s=within_s)
        answer = self._next() or (self._answers[0] if self._answers else None)
        assert answer is not None, f"no answer; the connection was {self.ended}"
        self._answers.remove(answer)
        return answer

    async def end(self, *, within_s=_WITHIN_S):
        """How the connection ended, once it did."""
        await self.until(lambda: self.ended is not None, within_s=within_s)
        return self.ended

    def _next(self):
        return next((one for one in self._answers if one.is_complete), None)

    # What the event loop calls

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        self.raw += data
        if self.parses:
            self._parser.feed_data(data)
        self._changes.note()

    def eof_received(self):
        if self.ended is None:
            self.ended = End.CLOSED
            answer = self._current
            if answer is not None and not self._has_framing(answer):
                answer.is_complete = True
        self._changes.note()
        return False

    def connection_lost(self, exc):
        if self.ended is None:
            self.ended = End.RESET if exc is not None else End.CLOSED
        self._changes.note()

    @staticmethod
    def _has_framing(answer):
        return answer["content-length"] is not None or answer["transfer-encoding"] is not None

    # What the parser calls

    def on_message_begin(self):
        self._current = Answer()

    def on_status(self, reason):
        self._current.reason += reason

    def on_header(self, name, value):
        self._current.fields.append((name.decode().lower(), value.decode("latin-1")))

    def on_headers_complete(self):
        self._current.status = self._parser.get_status_code()
        (self.interim if self._current.status < 200 else self._answers).append(self._current)

    def on_body(self, piece):
        self._current.body += piece

    def on_message_complete(self):
        self._current.is_complete = True
        self._current = None
