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
    power = _power(n_bytes)
    return f"{_scaled(n_bytes, power)} {_UNITS[power]}"


def part_of(part_bytes: int | None, whole_bytes: int | None) -> str | None:
    """``3.0 of 31.0 GiB``, both in the unit of the whole; nothing when the whole is unknown."""
    if whole_bytes is None:
        return None
    power = _power(whole_bytes)
    part = "-" if part_bytes is None else _scaled(part_bytes, power)
    return f"{part} of {_scaled(whole_bytes, power)} {_UNITS[power]}"


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


def _power(n_bytes: int) -> int:
    """Which unit suits: 0 for bytes, 1 for KiB and so on."""
    power = 0
    while n_bytes >= _STEP ** (power + 1) and power < len(_UNITS) - 1:
        power += 1
    return power


def _scaled(n_bytes: int, power: int) -> str:
    return f"{n_bytes / _STEP**power:.1f}" if power else str(n_bytes)
