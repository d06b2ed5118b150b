"""Follow a chunked body (RFC 9112 §7.1) to its exact end, and write chunks of our own.

See ``framing``.  What a chunked body carries beside its payload reaches no client: padding and
extensions of size lines, and trailers, which two readers could read differently.
"""

from __future__ import annotations

import functools
from typing import Final

from llmgw.gateway.framing import Framing, FramingBroken, Surplus

_CRLF: Final = b"\r\n"
_HEX_DIGITS: Final = b"0123456789abcdefABCDEF"
_MAX_SIZE_DIGITS: Final = 15
_MAX_LINE_BYTES: Final = 16384
_MAX_TRAILER_LINES: Final = 64


class ChunkedFraming(Framing):
    """A chunked body, followed chunk by chunk without a look at the payload.

    In a stream of tokens each read is one whole chunk and takes one turn of ``feed``'s loop.
    """

    __slots__ = (
        "_begun_bytes",
        "_cuts",
        "_end_at",
        "_in_trailer",
        "_line",
        "_line_before",
        "_pieces",
        "_size_before",
        "_skip_bytes",
        "_tells_surplus",
        "_trailer_bytes",
        "_trailer_lines",
    )

    def __init__(self, *, keeps_payload: bool = False, tells_surplus: bool = False) -> None:
        """Where it ``tells_surplus``, ``feed`` raises ``Surplus`` once."""
        super().__init__()
        self._tells_surplus = tells_surplus
        self._cuts: list[tuple[int, int]] = []  # ranges of the bytes fed last that are surplus
        self._begun_bytes = 0  # of the bytes being followed, those of earlier reads
        self._trailer_bytes = self._trailer_lines = 0
        self._skip_bytes = 0  # left of the current chunk, its closing CRLF included
        self._line = b""  # begin of a size or trailer line whose end has not come yet
        # Of the last read that was one chunk, its size line and its length: tokens are much alike.
        self._line_before = _CRLF
        self._size_before = 0
        self._in_trailer = False
        self._end_at = -1  # where in the bytes fed last the last chunk begins
        self._pieces: list[bytes] | None = [] if keeps_payload else None

    def feed(self, data: bytes) -> int:
        """See ``Framing``; a read that is one whole chunk takes no loop."""
        if self._skip_bytes or self._line or self._in_trailer or not data.endswith(_CRLF):
            return self._feed_any(data)
        size = len(data)
        if size != self._size_before or not data.startswith(self._line_before):
            end = data.find(_CRLF)
            length = _bare_length(data[:end]) if end > 0 else 0
            if length <= 0 or end + 4 + length != size:
                return self._feed_any(data)
            self._line_before, self._size_before = data[: end + 2], size
        self.has_payload = self.is_one_chunk = True
        return size

    def _feed_any(self, data: bytes) -> int:
        self.is_one_chunk = False
        if self._pieces is not None:
            self._pieces.clear()
        if self._cuts:
            self._cuts.clear()
        if not self._line:
            return self._follow(data)
        begun, self._line = self._line, b""
        self._begun_bytes = before = len(begun)
        try:
            taken = self._follow(begun + data) - before
        except (FramingBroken, Surplus):
            self._line = begun  # so much was passed on
            raise
        finally:
            self._begun_bytes = 0
        self._end_at -= before
        if self._cuts:
            cuts = [(max(at - before, 0), end - before) for at, end in self._cuts if end > before]
            self._cuts = cuts
        return taken

    def without_surplus(self, data: bytes) -> bytes:
        """See ``Framing``; a part of a line that may yet become surplus is held back."""
        if self.is_one_chunk or not self._cuts:
            return data
        kept, position = [], 0
        for begin, end in self._cuts:
            kept.append(data[position:begin])
            position = end
        return b"".join((*kept, data[position:]))

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
        if self._end_at < 0:
            return b""
        return self.without_surplus(data[: self._end_at]) + chunk(event)

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
            length = _bare_length(data[position:end])
            if length < 0:
                length = self._padded_length(data, position, end)
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
        return self._skip_to(data, position)

    def _skip_to(self, data: bytes, position: int) -> int:
        """The current chunk ends at ``position``, in this read or in a later one."""
        size = len(data)
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

    def _padded_length(self, data: bytes, position: int, end: int) -> int:
        """The size in a line that holds more; zeros that were passed on already are harmless."""
        digits = _digits(data[position:end])
        significant = digits.lstrip(b"0") or b"0"
        if len(significant) < len(digits) and position >= self._begun_bytes:
            self._cut(position, position + len(digits) - len(significant))
        self._cut(position + len(digits), end)
        return int(digits, 16)

    def _trailer(self, data: bytes, position: int) -> int:
        begin, lines = position, 0
        while (end := data.find(_CRLF, position)) >= 0 and end > position:
            if b"\r" in data[position:end]:
                raise FramingBroken("a line of the trailer has a bare carriage return")
            position = end + 2
            lines += 1
        rest = data[position:]
        held = len(data) if end < 0 and rest != b"\r" else position
        self._cut(begin, held)
        self._in_trailer = True
        self._skip_bytes = 0
        self._trailer_lines += lines
        self._trailer_bytes += position - begin
        if self._trailer_bytes > _MAX_LINE_BYTES or self._trailer_lines > _MAX_TRAILER_LINES:
            raise FramingBroken("the trailer has no end")
        if end < 0:
            return self._wait(data, rest)
        self.is_complete = True
        return end + 2

    def _wait_for_line(self, data: bytes, position: int) -> int:
        """Keep the begin of a size line; of it clients get digits alone."""
        line = data[position:]
        bare = line.removesuffix(b"\r")
        if not bare.isalnum() and bare:
            if b"\r" in bare or b"\n" in bare:
                raise FramingBroken("a chunk size is no hexadecimal number")
            self._cut(position + len(_digits(bare)), position + len(bare))
        return self._wait(data, line)

    def _wait(self, data: bytes, line: bytes) -> int:
        self._skip_bytes = 0
        self._line = line
        if len(line) > _MAX_LINE_BYTES:
            raise FramingBroken("a line of the chunked encoding has no end")
        return len(data)

    def _cut(self, begin: int, end: int) -> None:
        """These bytes are surplus, if they are any."""
        if begin == end:
            return
        self.has_surplus = True
        if self._tells_surplus:
            self._tells_surplus = False
            raise Surplus
        self._cuts.append((begin, end))


@functools.lru_cache(maxsize=1024)
def _bare_length(line: bytes) -> int:
    """The size that a line says and nothing else; -1 where it says more."""
    digits = _digits(line)
    if not 0 < len(digits) <= _MAX_SIZE_DIGITS or digits.translate(None, _HEX_DIGITS):
        raise FramingBroken("a chunk size is no hexadecimal number")
    if digits == line and (line[:1] != b"0" or line == b"0"):
        return int(digits, 16)
    if b"\n" in line or b"\r" in line:
        raise FramingBroken("a chunk extension has a bare end of line")
    return -1


def _digits(line: bytes) -> bytes:
    """The digits with which a size line begins."""
    return line if line.isalnum() else line.partition(b";")[0].rstrip(b" \t")


def payload_of(framing: Framing, body: bytes) -> bytes:
    """The bare payload of the begin of a body, of which ``framing`` has read every byte."""
    if not isinstance(framing, ChunkedFraming):
        return body
    again = ChunkedFraming(keeps_payload=True)
    again.feed(body)
    return again.payload(body)


def shown_of(framing: Framing, body: bytes) -> bytes:
    """The same without its surplus."""
    if not framing.has_surplus:
        return body
    again = ChunkedFraming()
    again.feed(body)
    return again.without_surplus(body)


def chunk(payload: bytes) -> bytes:
    """``payload`` as one chunk; nothing of nothing, which would be the end."""
    return b"%x\r\n%b\r\n" % (len(payload), payload) if payload else b""


def _into_chunk(event: bytes, *, left_bytes: int) -> bytes:
    if len(event) < left_bytes:
        return event
    return event[:left_bytes] + _CRLF + chunk(event[left_bytes:])


def _after_begun_size(line: bytes, event: bytes) -> bytes:
    """Finish the size line that began with ``line``, and deliver ``event`` behind it.

    Of ``line`` the client has the digits, and the carriage return if there is one; within the last
    chunk's size nothing can be said.
    """
    bare = line.removesuffix(b"\r")
    is_ending = bare != line
    digits = _digits(bare)
    if not digits.strip(b"0"):
        # Nothing or only zeros so far: more digits make it the size of our own chunk.
        return b"" if is_ending or digits != bare else chunk(event)
    try:
        _bare_length(digits)
    except FramingBroken:
        return b""
    left_bytes = int(digits, 16)
    return (b"\n" if is_ending else _CRLF) + _into_chunk(event, left_bytes=left_bytes)
