"""Which model files and model folders lie on this machine."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from llmgw.agent.discovery import storage
from llmgw.domain import weights
from llmgw.domain.nodes import LocalWeights

SUFFIXES = frozenset({".gguf", ".safetensors", ".bin", ".pt", ".pth"})

STALE_PART_S = 3600.0
"""Nobody fills a part that has not changed for so long: a download that brings nothing has failed
by then."""


def scan(
    folders: Iterable[str],
    *,
    is_shared: Callable[[str], bool] | None = None,
    now: Callable[[], float] = time.time,
) -> tuple[LocalWeights, ...]:
    """Weights that are direct children of the folders, by path; what cannot be read is left out.

    Parts of downloads that nobody fills are told too, as they take room.
    """
    is_shared = is_shared or storage.is_shared
    found: dict[str, LocalWeights] = {}
    for folder in filter(None, folders):
        shared = None
        for child in _children(Path(folder)):
            size_bytes = _size(child, now=now())
            if size_bytes is None:
                continue
            if shared is None:
                shared = is_shared(folder)
            path = str(child)
            found.setdefault(path, LocalWeights(path, size_bytes, is_shared=shared))
    return tuple(found[path] for path in sorted(found))


def _children(folder: Path) -> list[Path]:
    try:
        return [child for child in folder.iterdir() if _may_count(child.name)]
    except OSError:
        return []


def _may_count(name: str) -> bool:
    return _is_part(name) or not name.endswith(weights.RESERVED_SUFFIXES)


def _is_part(name: str) -> bool:
    return weights.is_owned(name) and name.endswith(weights.PART_SUFFIXES)


def _size(child: Path, *, now: float) -> int | None:
    """The size of a weight file or of a folder that holds one; nothing for anything else."""
    try:
        if _is_part(child.name):
            return _stale_size(child, now=now)
        if child.is_dir():
            return _folder_size(child)
        return child.stat().st_size if _is_weights(child) else None
    except OSError:
        return None


def _stale_size(part: Path, *, now: float) -> int | None:
    """The size of a part that nobody has filled for a while; nothing of one that may be filled."""
    files = _files(part) if part.is_dir() else ()
    found: list[os.stat_result] = [file.lstat() for file in (part, *files)]
    if now - max(one.st_mtime for one in found) < STALE_PART_S:
        return None
    return sum(one.st_size for one in found if stat.S_ISREG(one.st_mode))


def _is_weights(file: Path) -> bool:
    """Whether its name says so, or that it was downloaded: an address may end in any word."""
    return file.suffix.lower() in SUFFIXES or weights.is_owned(file.name)


def _folder_size(folder: Path) -> int | None:
    total_bytes, has_weights = 0, False
    for file in _files(folder):
        has_weights = has_weights or file.suffix.lower() in SUFFIXES
        try:
            total_bytes += file.stat().st_size  # of what a link leads to
        except OSError:
            continue
    return total_bytes if has_weights else None


def _files(folder: Path) -> Iterator[Path]:
    for base, _, names in os.walk(folder):
        yield from (Path(base, name) for name in names)
