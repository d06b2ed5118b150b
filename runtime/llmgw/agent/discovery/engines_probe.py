"""Which engines this machine can start, and their versions: programs are looked up and never run.

A wrapper of somebody's own might start a server when it is asked for its version. What a Python
environment holds stands in its files; only a Python itself is asked, and only for what it has.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from llmgw.kit import quick_runs

UNKNOWN_VERSION = "unknown"
"""The engine is here; what it is was not to be found out without running it."""

ASK_TIMEOUT_S = 8.0
_MOST_BYTES = 64 * 1024

_PACKAGES = {"sglang": "sglang", "vllm": "vllm"}
_NEEDS_PACKAGE = frozenset({"sglang"})
"""Engines that are started by a Python: that one is on every machine and tells of nothing."""

_PYTHON = re.compile(r"python3?(\.\d+)?")
_VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)?\S*")
_FOLDERS = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "lib/python3/dist-packages")


def probe(
    programs: Mapping[str, Sequence[str]],
    *,
    search_path: str | None,
    ask_timeout_s: float = ASK_TIMEOUT_S,
) -> Mapping[str, str]:
    """Version by engine; an engine whose program is not here is left out.

    ``programs`` holds the words that start each engine, as its driver would use them. May block for
    ``ask_timeout_s``.
    """
    found: dict[str, str] = {}
    for engine, words in sorted(programs.items()):
        program = _find(words[0], search_path) if words else None
        if program is None:
            continue
        version = _version(engine, program, ask_timeout_s=ask_timeout_s)
        if version is not None:
            found[engine] = version
    return found


def version_in(text: str) -> str:
    """The first version in what a program wrote; ``unknown`` without one."""
    for line in text.splitlines():
        if found := _VERSION.search(line):
            return found[0].rstrip(",;)")
    return UNKNOWN_VERSION


def _version(engine: str, program: Path, *, ask_timeout_s: float) -> str | None:
    """Its version, ``unknown``, or nothing where what it needs is not here."""
    package = _PACKAGES.get(engine)
    if package is None:
        return UNKNOWN_VERSION
    # The link itself first: a virtual environment's Python is a link to one outside of it.
    for place in dict.fromkeys((program, program.resolve())):
        for version in _installed(package, prefix=place.parent.parent):
            return version
    if engine not in _NEEDS_PACKAGE:
        return UNKNOWN_VERSION
    if not _PYTHON.fullmatch(program.name):
        return None
    return _ask(program, package, timeout_s=ask_timeout_s)


def _installed(package: str, *, prefix: Path) -> Iterator[str]:
    """Versions of a package below the folder in which an environment's ``bin`` lies."""
    for folder in _FOLDERS:
        for entry in sorted(prefix.glob(f"{folder}/{package}-*.dist-info")):
            yield version_in(entry.name.removeprefix(f"{package}-").removesuffix(".dist-info"))


def _ask(python: Path, package: str, *, timeout_s: float) -> str | None:
    """What a Python says of a package; nothing if it has none, or does not answer in time."""
    question = (
        "import importlib.metadata as m, importlib.util as u, sys; "
        f"sys.exit(1) if u.find_spec({package!r}) is None else print(m.version({package!r}))"
    )
    try:
        answer = quick_runs.run(
            [str(python), "-c", question], timeout_s=timeout_s, most_bytes=_MOST_BYTES
        )
    except (OSError, TimeoutError):
        return None
    return version_in(answer.output + answer.errors) if answer.code == 0 else None


def _find(program: str, search_path: str | None) -> Path | None:
    if os.sep in program:
        path = Path(program)
        return path if path.is_file() and os.access(path, os.X_OK) else None
    found = shutil.which(program, path=search_path)
    return None if found is None else Path(found)
