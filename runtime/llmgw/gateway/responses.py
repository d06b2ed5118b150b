"""Read the head of an engine's answer: status, fields, and how the body will end.

``upstream`` reads one head an answer and hands it to whoever receives the answer.  Pure.
"""

from __future__ import annotations

from typing import Final

import httptools

from llmgw.gateway.chunked_framing import ChunkedFraming
from llmgw.gateway.framing import CloseFraming, Framing, LengthFraming

_MOST_KNOWN: Final = 64
_MOST_KNOWN_BYTES: Final = 2048

_NOBODYS: Final = httptools.HttpResponseParser(object())


class HeadBroken(ValueError):
    """Not the head of an HTTP/1.x answer; ``upstream`` treats it like a lost connection."""


class Heads:
    """The heads that one endpoint sent lately.

    An engine's heads repeat, but for a date that changes once a second and a length; the more
    answers a second, the fewer heads have to be read.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, ResponseHead] = {}

    def read(self, head: bytes) -> ResponseHead:
        """What ``head`` says; raises ``HeadBroken``."""
        known = self._known.get(head)
        if known is None:
            known = ResponseHead(head)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            if len(head) <= _MOST_KNOWN_BYTES:
                self._known[head] = known
        return known


class ResponseHead:
    """One head, read whole, never changed and shared by all answers that begin with it.

    ``fields`` are in their order with names in lower case; ``length_bytes`` is the announced length
    of the body, ``None`` where the framing says otherwise; ``is_events`` an event stream.
    ``passed`` is for ``headers`` to keep what clients get to see of it, and ``passed_beside_rates``
    for those who are told what is left of rates of ours.
    """

    __slots__ = (
        "_parser",
        "connection",
        "fields",
        "is_chunked",
        "is_events",
        "keeps_open",
        "length_bytes",
        "passed",
        "passed_beside_rates",
        "status",
    )

    def __init__(self, head: bytes) -> None:
        """Parse; raises ``HeadBroken``."""
        self.fields: list[tuple[bytes, bytes]] = []
        self.passed = self.passed_beside_rates = b""
        self.status = 0
        self.keeps_open = False
        self._parser = httptools.HttpResponseParser(self)
        try:
            self._parser.feed_data(head)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise HeadBroken(str(error)) from error
        finally:
            self._parser = _NOBODYS  # the other refers back to this object
        self.connection = codings = b""
        self.is_events = False
        self.length_bytes: int | None = None
        for name, value in self.fields:
            if name == b"content-length":
                self.length_bytes = int(value)
            elif name == b"content-type":
                self.is_events = value[:17].lower() == b"text/event-stream"
            elif name == b"connection":
                self.connection += b"," + value
            elif name == b"transfer-encoding":
                codings += value.strip().lower()
        self.is_chunked = codings != b""
        if codings and codings != b"chunked":
            raise HeadBroken("a transfer coding that nobody asked for")
        if self.status in {204, 304}:
            self.is_chunked = False
            self.length_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field; called by the parser."""
        self.fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The empty line; called by the parser, which knows only now what the head means."""
        self.status = self._parser.get_status_code()
        self.keeps_open = self._parser.should_keep_alive()

    def framing(self, *, keeps_payload: bool, tells_surplus: bool = False) -> Framing:
        """A follower for the body that this head announces."""
        if self.is_chunked:
            return ChunkedFraming(keeps_payload=keeps_payload, tells_surplus=tells_surplus)
        return CloseFraming() if self.length_bytes is None else LengthFraming(self.length_bytes)
