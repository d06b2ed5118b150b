"""Random identifiers."""

from __future__ import annotations

import itertools
import secrets


def token(n_bytes: int = 4) -> str:
    """Hex digits of ``n_bytes`` random bytes."""
    return secrets.token_hex(n_bytes)


def request_id() -> str:
    """A fresh id for one client request, ``req-`` and 24 hex digits."""
    return "req-" + secrets.token_hex(12)


class RequestIds:
    """Ids like ``request_id``'s for a process that makes thousands a second.

    Random only at its begin, then counted: asking the system for random bytes is a system call.
    """

    __slots__ = ("_count", "_prefix")

    def __init__(self) -> None:
        self._prefix = "req-" + secrets.token_hex(7)
        self._count = itertools.count()

    def __call__(self) -> str:
        """The next id; another for 2**40 calls."""
        return f"{self._prefix}{next(self._count) & 0xFFFFFFFFFF:010x}"
