"""An engine whose answers a test writes byte by byte.

An answer is a script of steps: bytes are sent, a number is a pause in seconds, an ``asyncio.Event``
is waited for, and a ``Do`` says what happens to the connection.  Each request plays the next script
of ``once``, or else the one of ``always``.  What comes in is kept as it came.
"""

from __future__ import annotations

import asyncio
import enum
import socket
import struct
from collections.abc import Iterable

import orjson

from tests.fakes.waiting import Changes

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_WITHIN_S = 9.0


class Do(enum.Enum):
    """What a script does with its connection; after ``HOLD`` nothing comes any more."""

    CLOSE = "close"
    RESET = "reset"
    HALF_CLOSE = "half close"
    HOLD = "hold"


Step = bytes | float | asyncio.Event | Do


def head(status=200, *fields, reason="OK"):
    """The head of an answer; ``fields`` are whole lines."""
    return "\r\n".join([f"HTTP/1.1 {status} {reason}", *fields, "", ""]).encode()


def whole(body=b'{"id":"x"}', *fields, status=200):
    """An answer of announced length."""
    length = f"Content-Length: {len(body)}"
    return head(status, "Content-Type: application/json", length, *fields) + body


def chunk(payload):
    return b"%x\r\n%b\r\n" % (len(payload), payload)


END = b"0\r\n\r\n"
CHUNKED = head(200, "Content-Type: text/plain", "Transfer-Encoding: chunked")
EVENTS = head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
DONE = b"data: [DONE]\n\n"


def event(text):
    """One event of a stream, as engines send them."""
    return b"data: " + orjson.dumps({"choices": [{"delta": {"content": text}}]}) + b"\n\n"


def stream(*texts):
    """A whole stream of events, one chunk each, with its end."""
    return EVENTS + b"".join(chunk(event(text)) for text in texts) + chunk(DONE) + END


class Request:
    """One request as it came; ``fields`` has names in lower case and every value."""

    def __init__(self, raw, *, connection):
        self.raw = raw
        self.connection = connection
        lines, _, self.body = raw.partition(b"\r\n\r\n")
        self.line, *rest = lines.split(b"\r\n")
        self.fields = {}
        for line in rest:
            name, _, value = line.partition(b":")
            self.fields.setdefault(name.lower(), []).append(value.strip())

    @property
    def json(self):
        return orjson.loads(self.body)


class Upstream:
    """One listening socket with everything that ever came to it.

    ``connections`` counts all that were accepted, ``open`` holds those that live, ``aborted_at`` is
    when the gateway ended one whose script was still playing.
    """

    def __init__(self, answer=None):
        self._always = (answer if answer is not None else whole(),)
        self._once = []
        self._server = None
        self._changes = Changes()
        self.requests = []
        self.connections = 0
        self.open = set()
        self.aborted_at = []
        self.sent_bytes = 0

    def always(self, *steps):
        """Answer every request like this."""
        self._always = steps

    def once(self, *steps):
        """Answer the next request like this; the next but one like the next call says."""
        self._once.append(steps)

    async def start(self, *, buffer_bytes=None, tls=None):
        """Listen; ``buffer_bytes`` makes the kernel keep little of what is sent."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if buffer_bytes is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        self.port = listener.getsockname()[1]
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), sock=listener, ssl=tls)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def aborts(self):
        return len(self.aborted_at)

    @property
    def playing(self):
        """How many connections are in the middle of a script."""
        return sum(connection.is_playing for connection in self.open)

    def stop_listening(self):
        """Refuse connections from now on."""
        self._server.close()

    def close_idle(self):
        """Close every connection that plays no script, as an engine does after a while."""
        for connection in tuple(self.open):
            connection.close_if_idle()

    async def close(self):
        self._server.close()
        for connection in tuple(self.open):
            connection.end()
        await self.until(lambda: not self.open)

    async def until(self, condition, *, within_s=_WITHIN_S):
        """Wait for something to become true here."""
        await self._changes.until(condition, within_s=within_s)

    async def asked(self, count=1):
        """The request number ``count``, once it has come."""
        await self.until(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    async def aborted(self, count=1, *, within_s=_WITHIN_S):
        """When the gateway ended a connection early, once it has happened ``count`` times."""
        await self.until(lambda: self.aborts >= count, within_s=within_s)
        return self.aborted_at[count - 1]

    def script(self):
        return self._once.pop(0) if self._once else self._always

    def changed(self):
        self._changes.note()


class _Connection(asyncio.Protocol):
    def __init__(self, upstream):
        self._upstream = upstream
        self._received = b""
        self._playing = None
        self._may_write = asyncio.Event()
        self._may_write.set()

    def connection_made(self, transport):
        self._transport = transport
        if transport.get_extra_info("sslcontext") is None:
            transport.set_write_buffer_limits(high=0)
        self._upstream.connections += 1
        self.number = self._upstream.connections
        self._upstream.open.add(self)
        self._upstream.changed()

    def data_received(self, data):
        self._received += data
        self._answer_next()

    def pause_writing(self):
        self._may_write.clear()

    def resume_writing(self):
        self._may_write.set()

    def connection_lost(self, exc):
        upstream = self._upstream
        upstream.open.discard(self)
        if self._playing is not None:
            self._playing.cancel()
            upstream.aborted_at.append(asyncio.get_running_loop().time())
        upstream.changed()

    @property
    def is_playing(self):
        return self._playing is not None

    def close_if_idle(self):
        if not self.is_playing:
            self._transport.close()

    def end(self):
        """Stop in the middle of whatever it plays."""
        if self._playing is not None:
            self._playing.cancel()
        self.perform(Do.RESET)

    def perform(self, what):
        if what is Do.RESET:
            client = self._transport.get_extra_info("socket")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._end_script()
            self._transport.abort()
        elif what is Do.CLOSE:
            self._end_script()
            self._transport.close()
        elif what is Do.HALF_CLOSE:
            self._transport.write_eof()

    def _answer_next(self):
        if self._playing is not None or (raw := self._whole_request()) is None:
            return
        self._received = self._received[len(raw) :]
        self._upstream.requests.append(Request(raw, connection=self.number))
        playing = self._play(self._upstream.script())
        self._playing = asyncio.get_running_loop().create_task(playing, name="upstream.script")
        self._upstream.changed()

    def _whole_request(self):
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return None
        size = end + 4
        for line in self._received[:end].lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                size += int(line.partition(b":")[2])
        return self._received[:size] if len(self._received) >= size else None

    async def _play(self, steps: Iterable[Step]):
        for step in steps:
            if isinstance(step, bytes):
                await self._send(step)
            elif isinstance(step, asyncio.Event):
                await step.wait()
            elif isinstance(step, Do):
                self.perform(step)
                if step is Do.HOLD:
                    await asyncio.Event().wait()
            else:
                await asyncio.sleep(step)
        self._end_script()
        self._answer_next()

    async def _send(self, data):
        """Give each piece the chance to arrive as one, whatever follows."""
        self._transport.write(data)
        self._upstream.sent_bytes += len(data)
        await asyncio.sleep(0)
        await self._may_write.wait()
        await asyncio.sleep(0)

    def _end_script(self):
        self._playing = None
        self._upstream.changed()
