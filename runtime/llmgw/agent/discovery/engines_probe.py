"""Which engines this machine can start: their programs are looked up and never run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

UNKNOWN_VERSION = "unknown"
"""The engine is here; what it is was not asked, because a wrapper might start a server."""


def probe(programs: Mapping[str, Sequence[str]], *, search_path: str | None) -> Mapping[str, str]:
    """Version by engine; an engine whose program is not here is left out.

    ``programs`` holds the words that start each engine, as its driver would use them.
    """
    return {
        engine: UNKNOWN_VERSION
        for engine, words in sorted(programs.items())
        if words and _is_here(words[0], search_path)
    }


def _is_here(program: str, search_path: str | None) -> bool:
    if os.sep in program:
        return Path(program).is_file() and os.access(program, os.X_OK)
    return shutil.which(program, path=search_path) is not None
