"""How the body of one answer goes on to its client: as it came, bare, or without one chunk.

``relaying`` picks one an answer, writes what it gives and asks it how last words of ours can still
be delivered.  Pure: bytes in, bytes out; each piece given was fed to the framing just before.
"""

from __future__ import annotations

from typing import Final

from llmgw.gateway.chunked_framing import ChunkedFraming, chunk, payload_of, shown_of
from llmgw.gateway.framing import Framing, LengthFraming
from llmgw.gateway.usage import Usage
from llmgw.gateway.usage_chunk import Removal

_END: Final = b"0\r\n\r\n"
_USAGE: Final = b'"usage"'
_END_OF_ONE: Final = b"\n\n\r\n"
_OTHER_END_OF_ONE: Final = b"\n\r\n\r\n"
"""How a chunk ends that ends with a whole event."""


class Passage:
    """What each way offers; a class and no protocol, as ``choice`` says why.

    ``ends_at_close``: to the client a mere close would look like the end.
    """

    __slots__ = ("_framing", "ends_at_close")

    def __init__(self, framing: Framing, *, ends_at_close: bool) -> None:
        self._framing = framing
        self.ends_at_close = ends_at_close

    @property
    def usage(self) -> Usage | None:
        """What was taken out said of the usage."""
        return None

    def held(self, data: bytes) -> bytes:
        """What to write of ``data``, which came first and was held back until now."""
        raise NotImplementedError

    def body(self, data: bytes) -> bytes:
        """What to write now that ``data`` came; more will come."""
        raise NotImplementedError

    def last(self, data: bytes) -> bytes:
        """What to write now that the body ended with ``data``, its end included."""
        raise NotImplementedError

    def after_cut(self, event: bytes) -> bytes:
        """What delivers ``event`` although the body broke off here; empty: nothing can."""
        raise NotImplementedError

    def in_place_of_end(self, data: bytes, event: bytes) -> bytes:
        """What to write instead of ``last``, so that ``event`` comes and no end."""
        raise NotImplementedError


class AsItCame(Passage):
    """Byte for byte, framing included but for its surplus."""

    __slots__ = ()

    def __init__(self, framing: Framing) -> None:
        super().__init__(framing, ends_at_close=framing.ends_at_close())

    def held(self, data: bytes) -> bytes:
        """See ``Passage``."""
        return shown_of(self._framing, data)

    def body(self, data: bytes) -> bytes:
        """See ``Passage``."""
        return self._framing.without_surplus(data)

    def last(self, data: bytes) -> bytes:
        """See ``Passage``."""
        return self._framing.without_surplus(data)

    def after_cut(self, event: bytes) -> bytes:
        """See ``Passage``."""
        return self._framing.after_cut(event)

    def in_place_of_end(self, data: bytes, event: bytes) -> bytes:
        """See ``Passage``."""
        return self._framing.in_place_of_end(data, event)


class Bare(Passage):
    """The payload alone, for a client that knows no chunks; its connection's close is the end."""

    __slots__ = ()

    def __init__(self, framing: Framing) -> None:
        super().__init__(framing, ends_at_close=True)

    def held(self, data: bytes) -> bytes:
        """See ``Passage``."""
        return payload_of(self._framing, data)

    def body(self, data: bytes) -> bytes:
        """See ``Passage``."""
        return self._framing.payload(data)

    def last(self, data: bytes) -> bytes:
        """See ``Passage``."""
        return self._framing.payload(data)

    def after_cut(self, event: bytes) -> bytes:
        """See ``Passage``."""
        return event

    def in_place_of_end(self, data: bytes, event: bytes) -> bytes:
        """See ``Passage``."""
        return self._framing.payload(data) + event


class WithoutUsage(Passage):
    """Events without the chunk that tells the usage, which the client did not ask for.

    Chunks are made anew where an event or a chunk came in pieces, or may be the one; so between two
    calls the client is never within a chunk.  A chunk that is one whole event passes as it came.
    """

    __slots__ = ("_is_between_frames", "_is_chunked", "_removal")

    def __init__(self, framing: Framing, *, is_bare: bool) -> None:
        super().__init__(framing, ends_at_close=is_bare or framing.ends_at_close())
        self._is_chunked = isinstance(framing, ChunkedFraming) and not is_bare
        self._removal = Removal(pads=isinstance(framing, LengthFraming))
        self._is_between_frames = True

    @property
    def usage(self) -> Usage | None:
        """What the chunk said that was taken out."""
        return self._removal.usage

    def held(self, data: bytes) -> bytes:
        """See ``Passage``."""
        return self._framed(self._fed(payload_of(self._framing, data)))

    def body(self, data: bytes) -> bytes:
        """See ``Passage``; once a token."""
        if (
            self._is_between_frames
            and self._is_chunked
            and self._framing.is_one_chunk
            and (data.endswith(_END_OF_ONE) or data.endswith(_OTHER_END_OF_ONE))  # noqa: PIE810 - twice as quick
            and _USAGE not in data
        ):
            return data
        return self._framed(self._fed(self._framing.payload(data)))

    def last(self, data: bytes) -> bytes:
        """See ``Passage``."""
        return self._framed(self._all_of(data)) + (_END if self._is_chunked else b"")

    def after_cut(self, event: bytes) -> bytes:
        """See ``Passage``; a length that was announced leaves only so much room."""
        rest = self._removal.rest()
        if isinstance(self._framing, LengthFraming):
            return rest + self._framing.after_cut(event)
        return self._framed(rest + event)

    def in_place_of_end(self, data: bytes, event: bytes) -> bytes:
        """See ``Passage``; an announced length leaves no choice."""
        rest = self._all_of(data)
        return self._framed(rest if isinstance(self._framing, LengthFraming) else rest + event)

    def _all_of(self, data: bytes) -> bytes:
        return self._fed(self._framing.payload(data)) + self._removal.rest()

    def _fed(self, payload: bytes) -> bytes:
        passed = self._removal.feed(payload)
        self._is_between_frames = self._removal.is_between_frames
        return passed

    def _framed(self, payload: bytes) -> bytes:
        return chunk(payload) if self._is_chunked else payload
