"""Follow the framing of a response body to its exact end.

``upstream`` makes one follower a response and feeds it each read; ``relaying`` asks it how an event
of our own can still be delivered after a cut, and for the bare payload where a client speaks
HTTP/1.0.  Pure: bytes in, counts out; nothing is known of sockets or of what a body says.

A follower tells how many of the bytes it is fed belong to the body, so that what comes after the
end never reaches a client.
"""

from __future__ import annotations

import functools
from typing import Final

_CRLF: Final = b"\r\n"
_HEX_DIGITS: Final = b"0123456789abcdefABCDEF"
_MAX_SIZE_DIGITS: Final = 15
_MAX_LINE_BYTES: Final = 16384


class FramingBroken(ValueError):
    """The chunked encoding cannot be read; ``upstream`` treats it like a lost connection."""


class Framing:
    """What every follower offers; a class and no protocol, as ``choice`` says why.

    ``is_one_chunk``: what was fed last is one whole chunk; never where there are no chunks.
    """

    __slots__ = ("has_payload", "is_complete", "is_one_chunk")

    def __init__(self) -> None:
        self.is_complete = False
        self.has_payload = False
        self.is_one_chunk = False

    def feed(self, data: bytes) -> int:
        """How many bytes of ``data`` belong to the body; may raise ``FramingBroken``."""
        raise NotImplementedError

    def payload(self, data: bytes) -> bytes:
        """The bare payload within ``data``, which must be what was fed last."""
        raise NotImplementedError

    def ends_at_close(self) -> bool:
        """Whether a clean close of the connection is the end of the body."""
        raise NotImplementedError

    def after_cut(self, event: bytes) -> bytes:
        """What delivers ``event`` although the body broke off here; empty: nothing can."""
        raise NotImplementedError

    def in_place_of_end(self, data: bytes, event: bytes) -> bytes:
        """What to write instead of ``data``, fed last, so that ``event`` comes and no end."""
        raise NotImplementedError


class LengthFraming(Framing):
    """A body of the length that its head announced; length 0 is complete at once."""

    __slots__ = ("_left_bytes",)

    def __init__(self, length_bytes: int) -> None:
        super().__init__()
        self._left_bytes = length_bytes
        self.is_complete = length_bytes == 0

    def feed(self, data: bytes) -> int:
        """See ``Framing``."""
        taken = min(len(data), self._left_bytes)
        self._left_bytes -= taken
        self.is_complete = self._left_bytes == 0
        self.has_payload = self.has_payload or taken > 0
        return taken

    def payload(self, data: bytes) -> bytes:
        """See ``Framing``."""
        return data

    def ends_at_close(self) -> bool:
        """See ``Framing``."""
        return False

    def after_cut(self, event: bytes) -> bytes:
        """The event where the announced length leaves room for it and the body stays short."""
        return event if len(event) < self._left_bytes else b""

    def in_place_of_end(self, data: bytes, event: bytes) -> bytes:  # noqa: ARG002
        """See ``Framing``; an announced length leaves no choice."""
        return data


class CloseFraming(Framing):
    """A body that ends with its connection."""

    __slots__ = ()

    def feed(self, data: bytes) -> int:
        """See ``Framing``."""
        self.has_payload = self.has_payload or bool(data)
        return len(data)

    def payload(self, data: bytes) -> bytes:
        """See ``Framing``."""
        return data

    def ends_at_close(self) -> bool:
        """See ``Framing``."""
        return True

    def after_cut(self, event: bytes) -> bytes:
        """See ``Framing``."""
        return event

    def in_place_of_end(self, data: bytes, event: bytes) -> bytes:
        """See ``Framing``."""
        return data + event


class ChunkedFraming(Framing):
    """A chunked body (RFC 9112 §7.1), followed chunk by chunk without a look at the payload.

    In a stream of tokens each read is one whole chunk and takes one turn of ``feed``'s loop.
    """

    __slots__ = (
        "_end_at",
        "_in_trailer",
        "_line",
        "_pieces",
        "_skip_bytes",
    )

    def __init__(self, *, keeps_payload: bool = False) -> None:
        super().__init__()
        self._skip_bytes = 0  # left of the current chunk, its closing CRLF included
        self._line = b""  # begin of a size or trailer line whose end has not come yet
        self._in_trailer = False
        self._end_at = -1  # where in the bytes fed last the last chunk begins
        self._pieces: list[bytes] | None = [] if keeps_payload else None

    def feed(self, data: bytes) -> int:
        """See ``Framing``; a read that is one whole chunk takes no loop."""
        if not (self._skip_bytes or self._line or self._in_trailer):
            end = data.find(_CRLF)
            if end > 0:
                length = _length(data[:end])
                if length and end + 4 + length == len(data) and data[-2:] == _CRLF:
                    self.has_payload = self.is_one_chunk = True
                    return len(data)
        return self._feed_any(data)

    def _feed_any(self, data: bytes) -> int:
        self.is_one_chunk = False
        if self._pieces is not None:
            self._pieces.clear()
        if not self._line:
            return self._follow(data)
        begun, self._line = self._line, b""
        try:
            taken = self._follow(begun + data) - len(begun)
        except FramingBroken:
            self._line = begun  # so much was passed on
            raise
        self._end_at -= len(begun)
        return taken

    def payload(self, data: bytes) -> bytes:
        """See ``Framing``."""
        if self.is_one_chunk:
            return data[data.find(_CRLF) + 2 : -2]
        return b"".join(self._pieces or ())

    def ends_at_close(self) -> bool:
        """See ``Framing``."""
        return False

    def after_cut(self, event: bytes) -> bytes:
        """The event in what is left of the current chunk, and a chunk of its own for the rest."""
        if self.is_complete or self._in_trailer:
            return b""
        if self._skip_bytes > 2:
            return _into_chunk(event, left_bytes=self._skip_bytes - 2)
        if self._skip_bytes:
            return _CRLF[-self._skip_bytes :] + chunk(event)
        return _after_begun_size(self._line, event)

    def in_place_of_end(self, data: bytes, event: bytes) -> bytes:
        """See ``Framing``; nothing at all where the end was begun in an earlier read."""
        return data[: self._end_at] + chunk(event) if self._end_at >= 0 else b""

    def _follow(self, data: bytes) -> int:
        size = len(data)
        if self._in_trailer:
            self._end_at = -1
            return self._trailer(data, 0)
        position = self._skip_bytes
        if position:
            self._resume(data, position)
        while position < size:
            end = data.find(_CRLF, position)
            if end < 0:
                return self._wait_for_line(data, position)
            length = _length(data[position:end])
            if not length:
                self._end_at = position
                return self._trailer(data, end + 2)
            if end + 2 < size:
                self.has_payload = True
            position = end + 4 + length
            if position <= size and data[position - 2 : position] != _CRLF:
                raise FramingBroken("a chunk does not end where its size says")
            if self._pieces is not None:
                self._pieces.append(data[end + 2 : end + 2 + length])
        if position == size + 1 and data[-1:] != b"\r":
            raise FramingBroken("a chunk does not end where its size says")
        self._skip_bytes = position - size
        return size

    def _resume(self, data: bytes, position: int) -> None:
        """Go on in a chunk that began in an earlier read and ends at ``position``."""
        ending = data[max(position - 2, 0) : position]
        if position <= len(data) and not _CRLF.endswith(ending):
            raise FramingBroken("a chunk does not end where its size says")
        self.has_payload = True  # at the latest now
        if self._pieces is not None:
            self._pieces.append(data[: max(position - 2, 0)])

    def _trailer(self, data: bytes, position: int) -> int:
        self._in_trailer = True
        self._skip_bytes = 0
        while (end := data.find(_CRLF, position)) >= 0:
            if end == position:
                self.is_complete = True
                return end + 2
            position = end + 2
        return self._wait_for_line(data, position)

    def _wait_for_line(self, data: bytes, position: int) -> int:
        self._skip_bytes = 0
        self._line = data[position:]
        if len(self._line) > _MAX_LINE_BYTES:
            raise FramingBroken("a line of the chunked encoding has no end")
        return len(data)


@functools.lru_cache(maxsize=1024)
def _length(line: bytes) -> int:
    digits = line if line.isalnum() else line.partition(b";")[0].rstrip(b" \t")
    if not 0 < len(digits) <= _MAX_SIZE_DIGITS or digits.translate(None, _HEX_DIGITS):
        raise FramingBroken("a chunk size is no hexadecimal number")
    return int(digits, 16)


def payload_of(framing: Framing, body: bytes) -> bytes:
    """The bare payload of the begin of a body, of which ``framing`` has read every byte."""
    if not isinstance(framing, ChunkedFraming):
        return body
    again = ChunkedFraming(keeps_payload=True)
    again.feed(body)
    return again.payload(body)


def chunk(payload: bytes) -> bytes:
    """``payload`` as one chunk; nothing of nothing, which would be the end."""
    return b"%x\r\n%b\r\n" % (len(payload), payload) if payload else b""


def _into_chunk(event: bytes, *, left_bytes: int) -> bytes:
    if len(event) < left_bytes:
        return event
    return event[:left_bytes] + _CRLF + chunk(event[left_bytes:])


def _after_begun_size(line: bytes, event: bytes) -> bytes:
    """Finish the size line that began with ``line``, and deliver ``event`` behind it.

    Nothing can be said within the last chunk's size or within an extension.
    """
    digits = line.removesuffix(b"\r")
    is_ending = digits != line
    if not digits.strip(b"0"):
        # Nothing or only zeros so far: more digits make it the size of our own chunk.
        return b"" if is_ending else chunk(event)
    if not (is_ending or digits.isalnum()):
        return b""
    try:
        left_bytes = _length(digits)
    except FramingBroken:
        return b""
    return (b"\n" if is_ending else _CRLF) + _into_chunk(event, left_bytes=left_bytes)
