"""Chance as a function: the same seed and words give the same draw, so a pass can be repeated."""

from __future__ import annotations

import hashlib


def fraction(seed: int, *words: str) -> float:
    """A number in [0, 1)."""
    return int.from_bytes(_digest(seed, words)[:6], "big") / float(1 << 48)


def token(seed: int, *words: str) -> str:
    """Eight hex digits."""
    return _digest(seed, words)[:4].hex()


def _digest(seed: int, words: tuple[str, ...]) -> bytes:
    return hashlib.sha256("\0".join((str(seed), *words)).encode()).digest()
