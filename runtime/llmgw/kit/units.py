"""Durations and sizes as people write them: ``2s``, ``15m``, ``64KiB``, or a bare number."""

from __future__ import annotations

import math
import re
import sys
from typing import TypeGuard

from llmgw.errors import Invalid

DURATIONS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SIZES_BYTES = {
    "b": 1,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
    "tib": 1024**4,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
}

_NUMBER = r"([0-9]{1,99}(?:\.[0-9]{0,99})?|\.[0-9]{1,99})"  # no more, or it would be infinite
_DURATION_PART = re.compile(rf"{_NUMBER}\s*(ms|s|m|h|d)")
_DURATION = re.compile(rf"(?:{_NUMBER}\s*(?:ms|s|m|h|d)\s*)+")
_SIZE = re.compile(rf"{_NUMBER}\s*([a-z]*)")


def seconds(written: object) -> float:
    """Seconds in ``2s``, ``1h30m``, ``250ms``, ``5`` or 5; ``Invalid`` for anything else."""
    if isinstance(written, str):
        text = written.strip().lower()
        if _DURATION.fullmatch(text):
            return sum(float(n) * DURATIONS_S[unit] for n, unit in _DURATION_PART.findall(text))
        if re.fullmatch(_NUMBER, text):
            return float(text)
    elif _is_number(written) and 0 <= written <= sys.float_info.max:
        return float(written)
    raise Invalid(f"{written!r} is no duration: write 2s, 15m, 1h, 250ms or a number of seconds")


def size_bytes(written: object) -> int:
    """Bytes in ``64KiB``, ``32 MiB``, ``1GB``, ``4096`` or 4096; ``Invalid`` for anything else."""
    if isinstance(written, str):
        match = _SIZE.fullmatch(written.strip().lower())
        if match is not None and (match[2] or "b") in SIZES_BYTES:
            return round(float(match[1]) * SIZES_BYTES[match[2] or "b"])
    elif isinstance(written, int) and not isinstance(written, bool) and written >= 0:
        return written
    raise Invalid(f"{written!r} is no size: write 64KiB, 32MiB, 1GiB or a number of bytes")


def shown_seconds(value_s: float) -> str:
    """A duration as it would be written: 900.0 -> ``15m``, 0.25 -> ``250ms``."""
    if value_s == 0:
        return "0s"
    for unit in ("d", "h", "m", "s", "ms"):
        count = value_s / DURATIONS_S[unit]
        if count >= 1 and math.isclose(count, round(count)):
            return f"{round(count)}{unit}"
    return f"{value_s:g}s"


def shown_bytes(value_bytes: int) -> str:
    """A size as it would be written: 33554432 -> ``32MiB``."""
    for unit, word in (("tib", "TiB"), ("gib", "GiB"), ("mib", "MiB"), ("kib", "KiB")):
        if value_bytes and value_bytes % SIZES_BYTES[unit] == 0:
            return f"{value_bytes // SIZES_BYTES[unit]}{word}"
    return str(value_bytes)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
