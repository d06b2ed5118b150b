"""Shows that an unpacked engine can run here: its program, its libraries, its own word.

Called after each installation, and again from time to time: a library may have gone since.
"""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from llmgw.agent.install.tools import Finished, Tools
from llmgw.errors import EngineFailed

_LDD_S = 30.0
_VERSION_S = 60.0
_ABSENT = re.compile(r"^\s*(\S+) => not found")
_TOO_OLD = re.compile(r"(\S+): version [`'](\S+?)' not found")


@dataclass(frozen=True, slots=True)
class Verified:
    """The program of an engine, and the line in which it tells its version, if it has one."""

    program: Path
    version_line: str


def verify(folder: Path, name: str, *, tools: Tools) -> Verified:
    """Find the program and see it run; ``EngineFailed`` says what is missing."""
    program = find(folder, name)
    if program is None:
        raise EngineFailed(f"there is no program {name} in {folder}")
    missing = _missing(program, tools)
    if missing:
        raise EngineFailed(f"{name} cannot run here: {'; '.join(missing)}")
    told = tools.run([str(program), "--version"], timeout_s=_VERSION_S)
    if not told.is_ok:
        raise EngineFailed(f"{name} --version failed: {_why(told)}")
    return Verified(program=program, version_line=version_line(told.output))


def find(folder: Path, name: str) -> Path | None:
    """The first runnable file of that name below the folder, in the order of names."""
    for place, folders, files in os.walk(folder):
        folders.sort()
        path = Path(place, name)
        if name in files and os.access(path, os.X_OK):
            return path
    return None


def missing_libraries(ldd_output: str) -> tuple[str, ...]:
    """What ``ldd`` did not find, each once, in words; whatever its exit code was."""
    found: dict[str, None] = {}
    for line in ldd_output.splitlines():
        if absent := _ABSENT.match(line):
            found[f"{absent[1]} is not installed"] = None
        elif old := _TOO_OLD.search(line):
            found[f"{Path(old[1]).name} is too old (needs {old[2]})"] = None
    return tuple(found)


def version_line(output: str) -> str:
    """The first line that speaks of a version; empty when none does."""
    lines = (line.strip() for line in output.splitlines())
    return next((line for line in lines if "version" in line.lower()), "")


def _missing(program: Path, tools: Tools) -> tuple[str, ...]:
    ldd = tools.find("ldd")
    if ldd is None:
        return ()
    return missing_libraries(tools.run([ldd, str(program)], timeout_s=_LDD_S).output)


def _why(told: Finished) -> str:
    if told.code >= 0:
        return told.last_line
    name = signal.Signals(-told.code).name
    if name == "SIGILL":
        return f"ended by {name}: this processor lacks instructions that the build uses"
    return f"ended by {name}; {told.last_line}"
