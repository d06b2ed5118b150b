"""The HTTP/1.1 side of the simulated engine: one protocol object a connection.

Reads requests with httptools, hands each to ``answering`` and writes what comes back.
It goes on reading while an answer is produced, so a client that leaves is noticed at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from http import HTTPStatus
from typing import cast
from urllib.parse import unquote

import httptools

from llmgw.simulator import bodies
from llmgw.simulator.answering import Pending, Request, Routes

_MAX_BODY_BYTES = 64 * 2**20
_MAX_HEADER_BYTES = 256 * 2**10
_MAX_PIPELINED = 16
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Connection(asyncio.Protocol):
    """One client connection; requests on it are answered one after another."""

    def __init__(self, routes: Routes, connections: set[Connection]) -> None:
        """``connections`` holds every open connection, so that the engine can end them."""
        self._routes = routes
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[str, str] = {}
        self._header_bytes = 0
        self._body = bytearray()
        self._queue: deque[tuple[Request, bool]] = deque()
        self._pending: Pending | None = None
        self._is_answering = False
        self._is_kept_alive = True
        self.is_paused = False

    def close(self) -> None:
        """End the connection whatever it is doing."""
        if self._transport:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.Protocol``."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not subclasses
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (asyncio gives it)
        """See ``asyncio.Protocol``; the request in work is aborted, those in line are forgotten."""
        self._connections.discard(self)
        self._transport = None
        self._queue.clear()
        if self._pending:
            self._pending.client_left()
            self._pending = None

    def pause_writing(self) -> None:
        """See ``asyncio.Protocol``."""
        self.is_paused = True
        if self._pending:
            self._pending.hold()

    def resume_writing(self) -> None:
        """See ``asyncio.Protocol``."""
        self.is_paused = False
        if self._pending:
            self._pending.go_on()

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, _TooMuch):
            self._refuse()

    # What httptools calls while it parses.

    def on_message_begin(self) -> None:
        """A request begins."""
        self._url = b""
        self._headers = {}
        self._header_bytes = 0
        self._body = bytearray()

    def on_url(self, url: bytes) -> None:
        """A piece of the request target."""
        self._url += url
        self._count_header(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._count_header(len(name) + len(value))
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The head is complete; a client that waits for permission to send gets it."""
        if self._headers.get("expect", "").lower() == "100-continue" and self._transport:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._body += body
        if len(self._body) > _MAX_BODY_BYTES:
            raise _TooMuch

    def on_message_complete(self) -> None:
        """A request is complete: answer it, or keep it until the one before is answered."""
        request = Request(
            method=self._parser.get_method().decode("ascii"),
            path=unquote(httptools.parse_url(self._url).path.decode("latin-1")),
            headers=self._headers,
            body=bytes(self._body),
        )
        if len(self._queue) >= _MAX_PIPELINED:
            raise _TooMuch
        self._queue.append((request, self._parser.should_keep_alive()))
        self._answer_next()

    # The ``TextReply`` of the request in work.

    def whole(self, status: int, body: bytes) -> None:
        """See ``Reply``."""
        self._write_head(status, f"content-type: application/json\r\ncontent-length: {len(body)}")
        self._write(body)
        self._answered()

    def text(self, status: int, body: str) -> None:
        """See ``TextReply``."""
        data = body.encode()
        kind = "text/plain; version=0.0.4; charset=utf-8"
        self._write_head(status, f"content-type: {kind}\r\ncontent-length: {len(data)}")
        self._write(data)
        self._answered()

    def open_stream(self) -> None:
        """See ``Reply``."""
        self._write_head(
            200, "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked"
        )

    def send(self, events: bytes) -> None:
        """See ``Reply``."""
        self._write(b"%x\r\n%b\r\n" % (len(events), events))

    def end_stream(self) -> None:
        """See ``Reply``."""
        self._write(b"0\r\n\r\n")
        self._answered()

    def cut(self) -> None:
        """See ``Reply``."""
        self._pending = None
        if self._transport:
            self._transport.close()

    def _answer_next(self) -> None:
        while self._queue and not self._is_answering and self._transport:
            request, self._is_kept_alive = self._queue.popleft()
            self._is_answering = True
            pending = self._routes.answer(request, self)
            if self._is_answering:
                self._pending = pending

    def _answered(self) -> None:
        self._is_answering = False
        self._pending = None
        if not self._is_kept_alive:
            if self._transport:
                self._transport.close()
        elif self._queue and self._transport:
            asyncio.get_running_loop().call_soon(self._answer_next)

    def _write_head(self, status: int, fields: str) -> None:
        connection = "keep-alive" if self._is_kept_alive else "close"
        phrase = _PHRASES.get(status, "Unknown")
        head = f"HTTP/1.1 {status} {phrase}\r\n{fields}\r\nconnection: {connection}\r\n\r\n"
        self._write(head.encode("latin-1"))

    def _write(self, data: bytes) -> None:
        if self._transport:
            self._transport.write(data)

    def _count_header(self, n_bytes: int) -> None:
        self._header_bytes += n_bytes
        if self._header_bytes > _MAX_HEADER_BYTES:
            raise _TooMuch

    def _refuse(self) -> None:
        if self._transport and not self._is_answering:
            self._is_kept_alive = False
            message = "this is not an HTTP/1.1 request that the engine can read"
            self.whole(400, bodies.error(message, kind="invalid_request_error", code=400))
        elif self._transport:
            self._transport.abort()


class _TooMuch(Exception):
    """A request is larger than this engine takes; raised through the parser."""
