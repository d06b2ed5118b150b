"""Reads a length of time as people write it: ``2s``, ``15m``, ``1.5h``, ``250ms`` or a number."""

from __future__ import annotations

import math
import re

LEGAL = "a duration such as 2s, 15m, 1h, 250ms or a number of seconds"

_FORM = re.compile(r"(?P<count>[0-9]+(\.[0-9]+)?)(?P<unit>ms|s|m|h|d)?")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}


def seconds(written: object) -> float:
    """Seconds, never negative; ``ValueError`` with what is legal when it cannot be read."""
    if isinstance(written, (int, float)) and not isinstance(written, bool):
        if math.isfinite(written) and written >= 0:
            return float(written)
    elif isinstance(written, str) and (match := _FORM.fullmatch(written.strip())):
        return float(match["count"]) * _UNITS_S[match["unit"]]
    raise ValueError(f"must be {LEGAL}")
