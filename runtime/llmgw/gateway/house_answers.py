"""Read what the control plane answers: its head, and where its body ends."""

from __future__ import annotations

import asyncio
from typing import Final

from llmgw.gateway.exchange import Exchange

MOST_HEAD_BYTES: Final = 65536

_END_OF_HEAD: Final = b"\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
_OF_CONNECTION: Final = frozenset(
    {b"connection", b"keep-alive", b"server", b"upgrade", b"trailer", b"x-request-id"}
)
_BODILESS: Final = frozenset({204, 304})


class HouseBroken(ValueError):
    """What came is no whole answer."""


class HouseAnswer:
    """One answer; ``taken`` follows its body piece by piece."""

    def __init__(self, first: bytes, fields: list[tuple[bytes, bytes]], *, method: bytes) -> None:
        self._first = first
        self._fields = fields
        named = dict(fields)
        self.status = int(first.split(b" ", 2)[1])
        length = named.get(b"content-length")
        is_bodiless = method == b"HEAD" or self.status in _BODILESS
        self._is_chunked = b"transfer-encoding" in named and not is_bodiless
        self._left_bytes: int | None = 0 if is_bodiless else None
        if length is not None and not is_bodiless:
            self._left_bytes = int(length)
        self._tail = b""
        self._has_ended = False

    @property
    def ends_at_close(self) -> bool:
        """Whether nothing but the end of the connection tells where it ends."""
        return not self._is_chunked and self._left_bytes is None

    @property
    def is_whole(self) -> bool:
        """Whether all of it has come."""
        return self._has_ended or self._left_bytes == 0

    def taken(self, piece: bytes) -> bytes:
        """The next piece as the client gets it; ``HouseBroken`` where the end comes too soon."""
        if not piece:
            if self._left_bytes or (self._is_chunked and self._tail != _LAST_CHUNK):
                raise HouseBroken("the answer broke off")
            self._has_ended = True
        elif self._left_bytes is not None:
            self._left_bytes -= len(piece)
            if self._left_bytes < 0:
                raise HouseBroken("the answer is longer than it says")
        else:
            self._tail = (self._tail + piece)[-len(_LAST_CHUNK) :]
        return piece

    def head(self, exchange: Exchange) -> bytes:
        """The head as the client gets it."""
        lines = [self._first]
        lines += [b"%b: %b" % field for field in self._fields if _is_passed(field[0])]
        lines.append(b"x-request-id: %b" % exchange.request_key)
        if exchange.closes:
            lines.append(b"connection: close")
        return b"\r\n".join(lines) + _END_OF_HEAD


async def begun(reader: asyncio.StreamReader, *, method: bytes) -> HouseAnswer:
    """The head of an answer; ``HouseBroken`` for what is none."""
    try:
        head = await reader.readuntil(_END_OF_HEAD)
        first, *lines = head[: -len(_END_OF_HEAD)].split(b"\r\n")
        fields = [_field(line) for line in lines]
        return HouseAnswer(first, fields, method=method)
    except (EOFError, asyncio.LimitOverrunError, ValueError, IndexError) as error:
        raise HouseBroken("that is no head of an answer") from error


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon:
        raise ValueError(line)
    return name.strip().lower(), value.strip()


def _is_passed(name: bytes) -> bool:
    return name not in _OF_CONNECTION and not name.startswith(b"x-llmgw-")
