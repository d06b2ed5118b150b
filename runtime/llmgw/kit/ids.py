"""Random identifiers."""

from __future__ import annotations

import secrets
from typing import Final


def token(n_bytes: int = 4) -> str:
    """Hex digits of ``n_bytes`` random bytes."""
    return secrets.token_hex(n_bytes)


def request_id() -> str:
    """A fresh id for one client request, ``req-`` and 24 hex digits."""
    return "req-" + secrets.token_hex(12)


_LAST_DIGITS: Final = tuple(f"{number:03x}" for number in range(4096))


class RequestIds:
    """Ids like ``request_id``'s for a process that makes thousands a second.

    Random only at its begin, then counted: asking the system for random bytes is a system call.
    """

    __slots__ = ("_begin", "_blocks", "_last", "_prefix")

    def __init__(self) -> None:
        self._prefix = "req-" + secrets.token_hex(7)
        self._blocks = 0
        self._begin = f"{self._prefix}{0:07x}"
        self._last = 0

    def __call__(self) -> str:
        """The next id; another for 2**40 calls."""
        last = self._last
        if last == len(_LAST_DIGITS):
            last = 0
            self._blocks += 1
            self._begin = f"{self._prefix}{self._blocks & 0xFFFFFFF:07x}"
        self._last = last + 1
        return self._begin + _LAST_DIGITS[last]
