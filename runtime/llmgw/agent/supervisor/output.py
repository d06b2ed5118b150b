"""What engines print: one append-only file a process, trimmed in place, read from its end.

Files instead of pipes: an engine goes on writing while no agent runs, and nothing is lost when one
comes back. ``supervisor`` trims and forgets; ``shard`` reads tails into reports.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

KEPT_SHARDS = 16
"""Output of so many ended shards stays readable."""

_LINE_CHARACTERS = 2000
_BYTES_PER_LINE = 512
_MIN_READ_BYTES = 64 * 1024
_MAX_READ_BYTES = 1024 * 1024
_COPY_BYTES = 1024 * 1024
_CATCH_UP_ROUNDS = 3

_BREAKS = re.compile(r"\r\n|[\r\n]")
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_FILE = re.compile(r"\d\d-(?P<name>.+)\.log")


@dataclass(frozen=True, slots=True)
class Output:
    """The output of one shard: a folder with a file for each process."""

    folder: Path
    max_lines: int

    def file(self, *, order: int, name: str) -> Path:
        """Where the process started as number ``order`` writes; the folder is made."""
        self.folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        return self.folder / f"{order:02}-{name}.log"

    def tail(self, lines: int) -> tuple[str, ...]:
        """The newest lines of each process, oldest first, in the order of their start.

        Each line begins with its process in brackets. Zero or less means as many as are kept.
        """
        wanted = min(lines, self.max_lines) if lines > 0 else self.max_lines
        return tuple(
            f"[{name}] {line}" for path, name in self._files() for line in _tail(path, wanted)
        )

    def trim(self, *, max_bytes: int) -> None:
        """Move what is over ``max_bytes`` of each file to its one predecessor.

        Lines written between the last copy and the cut are lost; the engine never waits.
        """
        for path, _ in self._files():
            if path.stat().st_size > max_bytes:
                _roll(path, max_bytes=max_bytes)

    def _files(self) -> list[tuple[Path, str]]:
        if not self.folder.is_dir():
            return []
        matches = [(path, _FILE.fullmatch(path.name)) for path in sorted(self.folder.iterdir())]
        return [(path, match["name"]) for path, match in matches if match is not None]


def sources(root: Path) -> tuple[str, ...]:
    """Shards of which output is kept, sorted."""
    return tuple(sorted(folder.name for folder in _folders(root)))


def forget_old(root: Path, *, living: Iterable[str]) -> None:
    """Remove the output of ended shards, except of those that wrote last."""
    keep = set(living)
    ended = [folder for folder in _folders(root) if folder.name not in keep]
    newest_first = sorted(ended, key=_written_at, reverse=True)
    for folder in newest_first[KEPT_SHARDS:]:
        shutil.rmtree(folder, ignore_errors=True)


def _folders(root: Path) -> list[Path]:
    return [path for path in root.iterdir() if path.is_dir()] if root.is_dir() else []


def _written_at(folder: Path) -> float:
    return max((path.stat().st_mtime for path in folder.iterdir()), default=0.0)


def _tail(path: Path, lines: int) -> list[str]:
    bound = min(max(lines * _BYTES_PER_LINE, _MIN_READ_BYTES), _MAX_READ_BYTES)
    raw = _last_bytes(path, bound)
    if len(raw) < bound:
        raw = _last_bytes(_predecessor(path), bound - len(raw)) + raw
    found = [_shown(line) for line in _BREAKS.split(raw.decode("utf-8", errors="replace"))]
    # What was read from the middle of a file begins with half a line.
    whole = found[1:] if len(raw) >= bound and len(found) > 1 else found
    return [line for line in whole if line][-lines:]


def _last_bytes(path: Path, count: int) -> bytes:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - count))
            return file.read(count)
    except OSError:
        return b""


def _shown(line: str) -> str:
    clean = _CONTROLS.sub("", line)
    return clean if len(clean) <= _LINE_CHARACTERS else clean[: _LINE_CHARACTERS - 1] + "…"


def _predecessor(path: Path) -> Path:
    return path.with_name(path.name + ".1")


def _beside(path: Path) -> Path:
    """The next predecessor while it is written."""
    return path.with_name(path.name + ".1.new")


def _roll(path: Path, *, max_bytes: int) -> None:
    try:
        _move(path, max_bytes=max_bytes)
    except OSError as error:
        _beside(path).unlink(missing_ok=True)
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        _cut(path)


def _move(path: Path, *, max_bytes: int) -> None:
    moved = _beside(path)
    with path.open("r+b") as source, moved.open("wb") as copy:
        source.seek(max(0, source.seek(0, os.SEEK_END) - max_bytes))
        for _ in range(_CATCH_UP_ROUNDS):
            shutil.copyfileobj(source, copy, _COPY_BYTES)
            copy.flush()
        # The writer appends, so it goes on at the new beginning and leaves no hole.
        os.ftruncate(source.fileno(), 0)
    moved.rename(_predecessor(path))


def _cut(path: Path) -> None:
    """What may have filled the disk makes room first; only its newest lines are kept."""
    newest = _last_bytes(path, _MAX_READ_BYTES)
    _predecessor(path).unlink(missing_ok=True)
    os.truncate(path, 0)
    _predecessor(path).write_bytes(newest)
