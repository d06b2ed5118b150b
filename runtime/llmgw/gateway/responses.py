"""Read the head of an engine's answer: status, fields, and how the body will end.

``upstream`` reads one head an answer and hands it to whoever receives the answer.  Pure.
"""

from __future__ import annotations

import httptools

from llmgw.gateway.framing import (
    ChunkedFraming,
    CloseFraming,
    Framing,
    LengthFraming,
)


class HeadBroken(ValueError):
    """Not the head of an HTTP/1.x answer; ``upstream`` treats it like a lost connection."""


class ResponseHead:
    """One head, read whole.  ``fields`` are in their order with names in lower case."""

    __slots__ = (
        "_lengths",
        "_parser",
        "_transfer_codings",
        "connection",
        "fields",
        "is_events",
        "keeps_open",
        "status",
    )

    def __init__(self, head: bytes) -> None:
        """Parse; raises ``HeadBroken``."""
        self.fields: list[tuple[bytes, bytes]] = []
        self.connection = b""
        self.is_events = False
        self.status = 0
        self.keeps_open = False
        self._lengths = b""
        self._transfer_codings = b""
        self._parser = httptools.HttpResponseParser(self)
        try:
            self._parser.feed_data(head)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise HeadBroken(str(error)) from error
        finally:
            del self._parser  # it refers back to this object

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field; called by the parser."""
        name = name.lower()
        self.fields.append((name, value))
        if name == b"content-length":
            self._lengths = value
        elif name == b"content-type":
            self.is_events = value[:17].lower() == b"text/event-stream"
        elif name == b"transfer-encoding":
            self._transfer_codings += value.strip().lower()
        elif name == b"connection":
            self.connection += b"," + value

    def on_headers_complete(self) -> None:
        """The empty line; called by the parser, which knows only now what the head means."""
        self.status = self._parser.get_status_code()
        self.keeps_open = self._parser.should_keep_alive()

    @property
    def is_interim(self) -> bool:
        """A 1xx, after which the real head follows."""
        return self.status < 200

    def framing(self, *, keeps_payload: bool) -> Framing:
        """A follower for the body that this head announces; raises ``HeadBroken``."""
        if self.status in {204, 304}:
            return LengthFraming(0)
        if self._transfer_codings:
            if self._transfer_codings != b"chunked":
                raise HeadBroken("a transfer coding that nobody asked for")
            return ChunkedFraming(keeps_payload=keeps_payload)
        return LengthFraming(int(self._lengths)) if self._lengths else CloseFraming()
