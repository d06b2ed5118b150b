"""What a source consists of: the files to download, and what is known of each beforehand."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, replace

from llmgw.agent.weights.digests import Digest
from llmgw.domain import weights
from llmgw.errors import Invalid


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file: where it goes below its set's folder, where it comes from, what it must be."""

    path: str
    url: str
    size_bytes: int | None = None
    digest: Digest | None = None


@dataclass(frozen=True, slots=True)
class RemoteSet:
    """All files of a source at one revision; ``entry`` is the one that an engine opens.

    Without an entry it opens the folder. ``is_folder`` is false for a source of one file, which
    lies in the cache by itself.
    """

    files: tuple[RemoteFile, ...]
    is_folder: bool
    revision: str = ""
    entry: str = ""

    @property
    def total_bytes(self) -> int | None:
        """The size of all files, unless one of them is not known."""
        sizes = [file.size_bytes for file in self.files]
        return None if None in sizes else sum(size or 0 for size in sizes)


def single(file: RemoteFile, *, revision: str = "") -> RemoteSet:
    """A source of one file."""
    return RemoteSet((file,), is_folder=False, revision=revision)


def folder(files: Sequence[RemoteFile], *, source: str, revision: str = "") -> RemoteSet:
    """A source of several files, moved up to where engines look for them.

    Raises ``Invalid`` when a path leads out of the folder or two files have one name.
    """
    for file in files:
        if not weights.is_inside(file.path):
            raise Invalid(f"{source}: the file name {file.path!r} leads out of its folder")
    above = _common_folder([file.path for file in files])
    moved = tuple(replace(file, path=file.path.removeprefix(above)) for file in files)
    names = [file.path.lower() for file in moved]
    if len(set(names)) < len(names) or not moved:
        raise Invalid(f"{source}: its list of files is empty or names one twice")
    return RemoteSet(moved, is_folder=True, revision=revision, entry=_entry(moved))


def _common_folder(paths: Sequence[str]) -> str:
    """The folder that all paths are in, with its slash; empty when one is at the top."""
    folders = [posixpath.dirname(path) for path in paths]
    common = posixpath.commonpath(folders) if all(folders) else ""
    return f"{common}/" if common else ""


def _entry(files: Sequence[RemoteFile]) -> str:
    """The GGUF to open, where all weights are one; a projector beside it is no model."""
    names = [file.path for file in files]
    models = [name for name in names if is_gguf(name) and not is_projector(name)]
    firsts = {(weights.split_names(posixpath.basename(name)) or (name,))[0] for name in models}
    if len(firsts) != 1 or any(name.endswith(".safetensors") for name in names):
        return ""
    return min(models)


def is_gguf(path: str) -> bool:
    """Whether it is a model of llama.cpp, or a part of one."""
    return path.lower().endswith(".gguf")


def is_projector(path: str) -> bool:
    """Whether it is the part that turns images into tokens, which is loaded beside a model."""
    return posixpath.basename(path).lower().startswith("mmproj")
