"""What lies in the folder of downloads: whole ones, parts, and what a removal left; how one goes.

``fetching`` looks here before it fetches and removes through here. Only what a download made is
ever touched: a person's own files are in the same folder.
"""

from __future__ import annotations

import enum
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from llmgw.agent.weights import partials
from llmgw.agent.weights.holds import LOCK_SUFFIX
from llmgw.domain import weights
from llmgw.errors import Denied

SET_PARTIAL_SUFFIX = ".partial"
SET_NOTE = ".llmgw-weights.json"
"""The file in a set's folder that says where it comes from and what belongs to it."""

_TRASH_SUFFIX = ".trash"
_SUFFIXES = (".part.json", partials.PART_SUFFIX, SET_PARTIAL_SUFFIX, LOCK_SUFFIX)


class Kind(enum.StrEnum):
    """What an entry of the folder is."""

    WHOLE = "whole"
    PARTIAL = "partial"
    TRASH = "trash"


@dataclass(frozen=True, slots=True)
class Item:
    """A download in the folder; ``name`` is the one that it has, or will have, when it is whole."""

    name: str
    path: Path
    kind: Kind
    size_bytes: int
    changed_at: float


def stock(folder: Path) -> tuple[Item, ...]:
    """Everything that downloads made here, in the order of names; what cannot be read is left out.

    Locks and notes beside a part are none of their own.
    """
    found = []
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return ()
    for path in entries:
        kind = _kind(path.name)
        if kind is not None and weights.is_owned(path.name):
            try:
                changed_at = path.lstat().st_mtime
            except OSError:
                continue
            found.append(Item(whole_name(path.name), path, kind, size_bytes(path), changed_at))
    return tuple(found)


def whole_name(name: str) -> str:
    """The name that an entry has when it is whole: without the ends of parts and locks."""
    if name.endswith(_TRASH_SUFFIX):
        return name.removesuffix(_TRASH_SUFFIX).rpartition(".")[0]
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def opened(target: Path) -> str:
    """What an engine is given: the file, the folder, or the file in it that is the model."""
    entry = set_note(target).get("entry") if target.is_dir() else None
    if isinstance(entry, str) and entry and weights.is_inside(entry) and (target / entry).is_file():
        return str(target / entry)
    return str(target)


def set_note(folder: Path) -> dict[str, object]:
    """What is noted in a set's folder; nothing when there is no readable note."""
    try:
        note = json.loads((folder / SET_NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def came_bytes(target: Path) -> int:
    """How much has come of a download that is not whole yet, whoever fetches it."""
    return partials.size_bytes(target) + size_bytes(partials.beside(target, SET_PARTIAL_SUFFIX))


def size_bytes(path: Path) -> int:
    """The bytes of a file, or of all files below a folder, as far as they can be read."""
    total_bytes = 0
    for file in _files(path):
        try:
            total_bytes += file.lstat().st_size
        except OSError:
            continue
    return total_bytes


def checked(path: str, *, folder: Path) -> Path:
    """The entry that a removal names; ``Denied`` with the reason when it may not be removed.

    The list comes from elsewhere and is not trusted: only a direct child of our own folder with the
    mark of a download in its name, which is all that this looks at.
    """
    cleaned = Path(os.path.normpath(path if "/" in path else folder / path))
    if cleaned.parent != Path(os.path.normpath(folder)):
        raise Denied(f"{path} is not in {folder}, where this agent's downloads are; it stays")
    if not weights.is_owned(cleaned.name):
        raise Denied(f"{cleaned.name} was not fetched by an agent; remove it by hand")
    return cleaned


def check_no_link(path: Path) -> None:
    """Raise ``Denied`` for a link, whatever its name: it was put there by a person."""
    if path.is_symlink():
        raise Denied(f"{path.name} is a link, which no download makes; remove it by hand")


def take_away(path: Path) -> None:
    """Remove a download or its part: out of sight at once, then its bytes."""
    for entry in (path, partials.beside(path, ".json") if _is_part(path) else None):
        if entry is None or not os.path.lexists(entry):
            continue
        trash = entry.with_name(f"{whole_name(entry.name)}.{secrets.token_hex(4)}{_TRASH_SUFFIX}")
        entry.rename(trash)
        _delete(trash)


def empty_trash(folder: Path) -> None:
    """End removals that an earlier process began and did not end."""
    for item in stock(folder):
        if item.kind is Kind.TRASH:
            _delete(item.path)


def _kind(name: str) -> Kind | None:
    if name.endswith(_TRASH_SUFFIX):
        return Kind.TRASH
    if name.endswith((".part.json", LOCK_SUFFIX)) or f"{LOCK_SUFFIX}." in name:
        return None
    is_partial = name.endswith((partials.PART_SUFFIX, SET_PARTIAL_SUFFIX))
    return Kind.PARTIAL if is_partial else Kind.WHOLE


def _is_part(path: Path) -> bool:
    return path.name.endswith(partials.PART_SUFFIX)


def _files(path: Path) -> Iterator[Path]:
    if _is_folder(path):
        for base, _, names in os.walk(path):
            yield from (Path(base, name) for name in names)
    else:
        yield path


def _is_folder(path: Path) -> bool:
    """Whether it is a folder itself, and no link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _delete(path: Path) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
