"""Read requests from a client's bytes, and refuse what two readers could read differently.

``connection`` feeds it and takes whole requests out.  The grammar is llhttp's in its strict mode
(two lengths, a length with chunks, bare line feeds, control bytes: refused); here are the rules
that llhttp leaves to its user and the bounds that it does not have.  No sockets.
"""

from __future__ import annotations

from collections.abc import Callable

import httptools

from llmgw.config.settings import LimitsSettings
from llmgw.gateway.client_request import BodyBudget, ClientRequest, path_of
from llmgw.gateway.replies import Code, Refusal

_END_OF_HEAD = b"\r\n\r\n"
_MOST_AHEAD = 32
_FRAMING_ALLOWANCE = 2
"""Chunk sizes and trailers may make a chunked body this many times as long on the wire."""


class RequestReader:
    """The requests of one connection, in their order.

    After each ``feed``, ``complete`` holds requests that have come whole, ``refusal`` says why no
    more can be read, and ``wants_continue`` that the client waits before it sends the body.
    """

    __slots__ = (
        "_budget",
        "_fed_bytes",
        "_limits",
        "_now",
        "_parser",
        "_target",
        "complete",
        "is_in_head",
        "refusal",
        "request",
        "wants_continue",
    )

    def __init__(
        self, *, limits: LimitsSettings, budget: BodyBudget, now: Callable[[], float]
    ) -> None:
        self._limits = limits
        self._budget = budget
        self._now = now
        self._parser = httptools.HttpRequestParser(self)
        self._fed_bytes = 0  # of the head, then of the body
        self._target = b""
        self.is_in_head = True
        self.request: ClientRequest | None = None
        self.complete: list[ClientRequest] = []
        self.refusal: Refusal | None = None
        self.wants_continue = False

    def feed(self, data: bytes) -> None:
        """Read on; after a refusal nothing more may be fed."""
        if not self._fits(data):
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(Code.UNSUPPORTED_UPGRADE)
        except httptools.HttpParserCallbackError as error:
            raise (error.__context__ or error) from None  # a fault of our own
        except httptools.HttpParserError:
            self._refuse(Code.MALFORMED_REQUEST)

    def close(self) -> None:
        """Give back what is held; the parser refers to this object and would keep it alive."""
        del self._parser
        for request in (*self.complete, self.request):
            if request is not None:
                request.forget_content()

    def on_message_begin(self) -> None:
        """The first byte of a request; called by the parser, as all that follow."""
        self.request = ClientRequest(budget=self._budget, started_at=self._now())
        self._target = b""

    def on_url(self, url: bytes) -> None:
        """A piece of the request target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head; fields of a trailer are dropped."""
        if self.is_in_head and self.request is not None:
            self.request.add_field(name, value)

    def on_headers_complete(self) -> None:
        """The end of the head."""
        request = self.request
        if request is None:
            return
        self.is_in_head = False
        self._fed_bytes = 0
        request.method = self._parser.get_method()
        path = path_of(self._target)
        code = self._judge_head(request, version=self._parser.get_http_version())
        if code is None and path is None:
            code = Code.MALFORMED_REQUEST
        request.path = path or b""
        if code is not None:
            self._refuse(code)

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        request = self.request
        if request is None or self.refusal is not None:
            return
        if request.body_bytes + len(piece) > self._limits.max_body_bytes:
            self._refuse(Code.BODY_TOO_LARGE)
        elif not request.add_body(piece):
            self.refusal = Refusal(Code.MEMORY_PRESSURE, retry_after_s=1)

    def on_message_complete(self) -> None:
        """The end of a request; only here the parser knows whether the connection may go on."""
        request = self.request
        if request is None or self.refusal is not None:
            return
        request.keeps_open = self._parser.should_keep_alive() and not request.is_http10
        request.complete()
        self.complete.append(request)
        self.request = None
        self.is_in_head = True
        self.wants_continue = False
        if len(self.complete) >= _MOST_AHEAD:
            request.keeps_open = False

    def _fits(self, data: bytes) -> bool:
        """Bound what one request may send: llhttp has no bounds of its own."""
        before = self._fed_bytes
        self._fed_bytes += len(data)
        limits = self._limits
        if self.is_in_head:
            if self._fed_bytes <= limits.max_header_bytes:
                return True
            end = data.find(_END_OF_HEAD)
            if end >= 0 and before + end <= limits.max_header_bytes:
                return True
            self._refuse(Code.HEADERS_TOO_LARGE)
            return False
        most_bytes = limits.max_header_bytes + _FRAMING_ALLOWANCE * limits.max_body_bytes
        if self._fed_bytes > most_bytes:
            self._refuse(Code.BODY_TOO_LARGE)
            return False
        return True

    def _judge_head(self, request: ClientRequest, *, version: str) -> Code | None:
        fields = request.headers
        request.is_http10 = version == "1.0"
        if not request.is_http10 and version != "1.1":
            return Code.HTTP_VERSION_NOT_SUPPORTED
        host = fields.get(b"host")
        if (host is None and not request.is_http10) or (host is not None and b"," in host):
            return Code.MALFORMED_REQUEST
        if b"transfer-encoding" in fields and (
            request.is_http10 or fields[b"transfer-encoding"].strip().lower() != b"chunked"
        ):
            return Code.MALFORMED_REQUEST
        if int(fields.get(b"content-length", b"0")) > self._limits.max_body_bytes:
            return Code.BODY_TOO_LARGE
        if b"expect" in fields:
            if fields[b"expect"].strip().lower() != b"100-continue":
                return Code.EXPECTATION_FAILED
            self.wants_continue = not request.is_http10
        return None

    def _refuse(self, code: Code) -> None:
        if self.refusal is None:
            self.refusal = Refusal(code)
