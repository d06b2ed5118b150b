"""Follow the framing of a response body to its exact end.

``upstream`` makes one follower a response and feeds it each read; ``relaying`` asks it how an event
of our own can still be delivered after a cut, and for the bare payload where a client speaks
HTTP/1.0.  The follower of chunks is in ``chunked_framing``.  Pure: bytes in, counts out; nothing is
known of sockets or of what a body says.

A follower tells how many of the bytes it is fed belong to the body, so that what comes after the
end never reaches a client.
"""

from __future__ import annotations


class FramingBroken(ValueError):
    """The chunked encoding cannot be read; ``upstream`` treats it like a lost connection."""


class Surplus(Exception):
    """For the first time the chunked encoding holds what clients need not see.

    No error: fed the same bytes again, a follower goes on.
    """


class Framing:
    """What every follower offers; a class and no protocol, as ``choice`` says why.

    ``is_one_chunk``: what was fed last is one whole chunk; never where there are no chunks.
    ``has_surplus``: what clients get is not what comes, but ``without_surplus``.
    """

    __slots__ = ("has_payload", "has_surplus", "is_complete", "is_one_chunk")

    def __init__(self) -> None:
        self.is_complete = False
        self.has_payload = False
        self.has_surplus = False
        self.is_one_chunk = False

    def feed(self, data: bytes) -> int:
        """How many bytes of ``data`` belong to the body; may raise ``FramingBroken``."""
        raise NotImplementedError

    def without_surplus(self, data: bytes) -> bytes:
        """What clients get of ``data``, which must be what was fed last."""
        return data

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
