"""Order endpoints by a hash of a key and each of them, so that workers choose alike; pure.

``picking`` orders equals by it and ``sessions`` finds a session's home: nothing is remembered or
told, and an endpoint that comes or goes moves only the keys that are its own.
"""

from __future__ import annotations

import zlib
from typing import Final

_30_BITS: Final = 0x3FFFFFFF
"""Factors of so many bits are multiplied without a call where the gateway is compiled."""

_GOLDEN_RATIO: Final = 0x1E3779B1
_ODD: Final = 0x05EBCA6B


def salt(endpoint_id: str) -> int:
    """The endpoint's share in its ranks."""
    return zlib.crc32(endpoint_id.encode()) & _30_BITS


def mix(key: bytes) -> int:
    """The key's share in the ranks."""
    return zlib.crc32(key) & _30_BITS


def rank(salt: int, mixed: int) -> int:
    """How far in front an endpoint is for a key; the highest is first."""
    # Without the shift between them the multiplications would leave ranks that all keys share.
    rank = (salt ^ mixed) * _GOLDEN_RATIO & _30_BITS
    return (rank ^ rank >> 15) * _ODD & _30_BITS
