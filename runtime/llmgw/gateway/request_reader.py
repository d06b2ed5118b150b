"""Read requests from a client's bytes, and refuse what two readers could read differently.

``connection`` feeds it and takes whole requests out.  The grammar is llhttp's in its strict mode
(two lengths, a length with chunks, bare line feeds, control bytes: refused); here are the rules
that llhttp leaves to its user and the bounds that it does not have.  No sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import httptools

from llmgw.config.carrying import LimitsSettings
from llmgw.gateway.exchange import MODEL_PATHS, BodyBudget, Exchange, path_of
from llmgw.gateway.replies import Code, Refusal

_END_OF_HEAD: Final = b"\r\n\r\n"
_FRAMING_ALLOWANCE: Final = 2
"""Chunk sizes may make a chunked body this many times as long on the wire, at any moment."""

_LARGE_HEAD_BYTES: Final = 8192

_NOBODYS: Final = httptools.HttpRequestParser(object())


class RequestReader:
    """The requests of one connection, in their order.

    After each ``feed``, ``complete`` holds requests that have come whole, ``refusal`` says why no
    more can be read, and ``wants_continue`` that the client waits before it sends the body.
    """

    __slots__ = (
        "_budget",
        "_fed_bytes",
        "_fields",
        "_is_in_head",
        "_limits",
        "_most_bytes",
        "_now",
        "_parser",
        "_target",
        "begun",
        "complete",
        "refusal",
        "wants_continue",
    )

    def __init__(
        self, *, limits: LimitsSettings, budget: BodyBudget, now: Callable[[], float]
    ) -> None:
        self._limits = limits
        self._budget = budget
        self._now = now
        self._parser = httptools.HttpRequestParser(self)
        self._most_bytes = limits.max_header_bytes
        self._fed_bytes = 0  # of the head, then of the body
        self._target = b""
        self._fields: dict[bytes, bytes] | None = None  # of a head; nobody reads a trailer
        self._is_in_head = True
        self.begun: Exchange | None = None
        self.complete: list[Exchange] = []
        self.refusal: Refusal | None = None
        self.wants_continue = False

    @property
    def holds_large_head(self) -> bool:
        """Whether more of a head has come than is usual, and not yet its end."""
        return self._is_in_head and self._fed_bytes > _LARGE_HEAD_BYTES

    def feed(self, data: bytes) -> None:
        """Read on; after a refusal nothing more may be fed."""
        self._fed_bytes += len(data)
        if self._fed_bytes > self._most_bytes and not self._is_within_bounds(data):
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            raise (error.__context__ or error) from None  # a fault of our own
        except httptools.HttpParserError:
            self._refuse(Code.MALFORMED_REQUEST)

    def close(self) -> None:
        """Give back what is held; the parser refers to this object and must not keep it alive."""
        self._parser = _NOBODYS
        for exchange in (*self.complete, self.begun):
            if exchange is not None:
                exchange.forget_content()

    def on_message_begin(self) -> None:
        """The first byte of a request; called by the parser, as all that follow."""
        self.begun = exchange = Exchange(self._budget, self._now())
        self._fields = exchange.headers
        self._target = b""

    def on_url(self, url: bytes) -> None:
        """A piece of the request target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head, or of a trailer."""
        fields = self._fields
        if fields is None:
            return
        name = name.lower()
        fields[name] = value if name not in fields else fields[name] + b", " + value

    def on_headers_complete(self) -> None:
        """The end of the head."""
        exchange = self.begun
        if exchange is None:
            return
        self._is_in_head = False
        self._fields = None
        self._fed_bytes = 0
        parser, target = self._parser, self._target
        exchange.method = parser.get_method()
        version = parser.get_http_version()
        if version != "1.1":
            exchange.is_http10 = True
            if version == "0.9":
                self._refuse(Code.MALFORMED_REQUEST)
            elif version != "1.0":
                self._refuse(Code.HTTP_VERSION_NOT_SUPPORTED)
        is_known = target in MODEL_PATHS or (target == b"*" and exchange.method == b"OPTIONS")
        path = target if is_known else path_of(target)
        if path is None:
            self._refuse(Code.MALFORMED_REQUEST)
        else:
            exchange.path = path
            if path is not target:
                exchange.query = target.partition(b"?")[2]
        self._judge_fields(exchange, exchange.headers)

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        exchange = self.begun
        if exchange is None or self.refusal is not None:
            return
        if exchange.body_bytes + len(piece) > self._limits.max_body_bytes:
            self._refuse(Code.BODY_TOO_LARGE)
        elif not exchange.add_body(piece):
            self.refusal = Refusal(Code.MEMORY_PRESSURE, retry_after_s=1)

    def on_message_complete(self) -> None:
        """The end of a request; only here the parser knows whether the connection may go on."""
        exchange = self.begun
        if exchange is None or self.refusal is not None:
            return
        exchange.keeps_open = self._parser.should_keep_alive() and not exchange.is_http10
        if len(exchange.body) != exchange.body_bytes:
            exchange.join_body()
        self.complete.append(exchange)
        self.begun = None
        self._is_in_head = True
        self._fed_bytes = 0
        self._most_bytes = self._limits.max_header_bytes
        self.wants_continue = False

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read the head once more without its wish, which a server may ignore (RFC 9110 §7.8).

        llhttp takes all that follows such a head, the body too, for bytes of the other protocol.
        """
        if self.refusal is not None:
            return
        self.begun = asked = self.complete.pop()
        if asked.headers.pop(b"upgrade", None) is None:
            self._refuse(Code.METHOD_NOT_ALLOWED)  # CONNECT
            return
        lines = [b"%b: %b" % field for field in asked.headers.items()]
        version = b"1.0" if asked.is_http10 else b"1.1"
        first = b"%b %b HTTP/%b" % (asked.method, self._target, version)
        self._parser = httptools.HttpRequestParser(self)
        self.feed(b"\r\n".join([first, *lines]) + _END_OF_HEAD + rest)

    def _is_within_bounds(self, data: bytes) -> bool:
        """Whether a read past the bound is legal: it may hold more than the bounded head."""
        before = self._fed_bytes - len(data)
        allowed = self._limits.max_header_bytes
        if not self._is_in_head:
            # Of what was read before, the body is known: a trailer or extension has no end else.
            payload = self.begun.body_bytes if self.begun is not None else 0
            if before > allowed + _FRAMING_ALLOWANCE * payload:
                self._refuse(Code.BODY_TOO_LARGE)
                return False
            self._most_bytes = self._fed_bytes + allowed
            return True
        end = data.find(_END_OF_HEAD)
        if end < 0 or before + end > allowed:
            self._refuse(Code.HEADERS_TOO_LARGE)
            return False
        return True

    def _judge_fields(self, exchange: Exchange, fields: dict[bytes, bytes]) -> None:
        """Refuse what is ambiguous, too large or not understood."""
        host = fields.get(b"host")
        if host is None:
            if not exchange.is_http10:
                self._refuse(Code.MALFORMED_REQUEST)
        elif b"," in host:
            self._refuse(Code.MALFORMED_REQUEST)
        if b"transfer-encoding" in fields:
            is_chunked = fields[b"transfer-encoding"].strip().lower() == b"chunked"
            if exchange.is_http10 or not is_chunked:
                self._refuse(Code.MALFORMED_REQUEST)
        elif int(fields.get(b"content-length", 0)) > self._limits.max_body_bytes:
            self._refuse(Code.BODY_TOO_LARGE)
        if b"expect" in fields:
            self.wants_continue = not exchange.is_http10
            if fields[b"expect"].strip().lower() != b"100-continue":
                self._refuse(Code.EXPECTATION_FAILED)

    def _refuse(self, code: Code) -> None:
        if self.refusal is None:
            self.refusal = Refusal(code)
