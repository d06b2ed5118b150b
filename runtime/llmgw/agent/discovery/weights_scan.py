"""Which model files and model folders lie on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from llmgw.agent.discovery import storage
from llmgw.domain import weights
from llmgw.domain.nodes import LocalWeights

SUFFIXES = frozenset({".gguf", ".safetensors", ".bin", ".pt", ".pth"})


def scan(
    folders: Iterable[str], *, is_shared: Callable[[str], bool] | None = None
) -> tuple[LocalWeights, ...]:
    """Weights that are direct children of the folders, by path; what cannot be read is left out."""
    is_shared = is_shared or storage.is_shared
    found: dict[str, LocalWeights] = {}
    for folder in filter(None, folders):
        shared = None
        for child in _children(Path(folder)):
            size_bytes = _size(child)
            if size_bytes is None:
                continue
            if shared is None:
                shared = is_shared(folder)
            path = str(child)
            found.setdefault(path, LocalWeights(path, size_bytes, is_shared=shared))
    return tuple(found[path] for path in sorted(found))


def _children(folder: Path) -> list[Path]:
    try:
        return [p for p in folder.iterdir() if not p.name.endswith(weights.RESERVED_SUFFIXES)]
    except OSError:
        return []


def _size(child: Path) -> int | None:
    """The size of a weight file or of a folder that holds one; nothing for anything else."""
    try:
        if child.is_dir():
            return _folder_size(child)
        return child.stat().st_size if _is_weights(child) else None
    except OSError:
        return None


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
