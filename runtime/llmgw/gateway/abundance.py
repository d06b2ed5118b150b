"""Tell a body that would become more objects than any request is worth; pure.

``estimating``, ``heads`` and ``sending`` ask before they read all of a large body.  A byte of JSON
may become twenty of objects, and the collector looks at each of them again and again.
"""

from __future__ import annotations

_LARGE_BYTES = 262_144
_MOST_CONTAINERS = 100_000
_MOST_VALUES = 2_000_000
"""More than thousands of texts, written as numbers of tokens."""


def is_abundant(body: bytes) -> bool:
    """Whether it holds too many values, or too many lists and objects of them."""
    if len(body) < _LARGE_BYTES:
        return False
    containers = body.count(b"[") + body.count(b"{")
    return containers > _MOST_CONTAINERS or body.count(b",") > _MOST_VALUES
