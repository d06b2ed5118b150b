"""Figures as people read them in a table; what is unknown stays ``None``, shown as ``-``; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 86400
_STEP = 1024
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def age(seconds: float | None) -> str | None:
    """Two units at most, ``12s``, ``4m12s``, ``3h05m``, ``2d4h``; nothing when unknown."""
    if seconds is None:
        return None
    whole = max(0, math.floor(seconds))
    if whole < _MINUTE_S:
        return f"{whole}s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S}m{whole % _MINUTE_S:02}s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S}h{whole % _HOUR_S // _MINUTE_S:02}m"
    return f"{whole // _DAY_S}d{whole % _DAY_S // _HOUR_S}h"


def size(n_bytes: int | None) -> str | None:
    """Binary units with one decimal from KiB up, ``1.2 GiB``; nothing when unknown."""
    if n_bytes is None:
        return None
    amount, unit = float(n_bytes), 0
    while amount >= _STEP and unit < len(_UNITS) - 1:
        amount, unit = amount / _STEP, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{n_bytes} B"


def mebibytes(amount: int | None) -> str | None:
    """The size of so many MiB; nothing when unknown."""
    return None if amount is None else size(amount * _STEP * _STEP)


def part_of(part: str | None, whole: str | None) -> str | None:
    """``3.0 GiB of 31.0 GiB``; nothing when the whole is unknown."""
    return None if whole is None else f"{part or '-'} of {whole}"


def counts(by_word: Mapping[str, int]) -> str:
    """``3 ready, 1 lost``; ``none`` when there is nothing to count."""
    return ", ".join(f"{n} {word}" for word, n in by_word.items() if n) or "none"


def listed(words: Sequence[str]) -> str:
    """``a, b``; ``none`` for a list that is known to be empty."""
    return ", ".join(words) or "none"


def bar(*, part: int, whole: int, width: int = 20) -> str:
    """A bar of ``width`` cells, filled to ``part`` of ``whole``."""
    filled = round(width * part / whole) if whole else 0
    return "█" * filled + "░" * (width - filled)
