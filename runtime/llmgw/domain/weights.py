"""Where the weights of a source are: what is remote, the name in a node's cache, who holds them.

The agent names its downloads by these rules and the control plane looks for them; so both sides share this module.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable

CACHE_MARK = re.compile(r"[0-9a-f]{16}-")
"""How the name of a download begins; files of an operator never look like this."""

PARTIAL_SUFFIXES = (".part", ".partial")
"""Ends of the names of downloads under way; they hold nothing yet."""

_REMOTE = ("hf:", "http://", "https://")
_LOCAL = ("/", "./", "../")
_HUB = "https://huggingface.co"
_HUB_PARTS = 3


def is_remote(source: str) -> bool:
    """Whether the agent downloads it."""
    return source.startswith(_REMOTE)


def is_path(source: str) -> bool:
    """Whether it is a file or folder of the node; anything else that is not remote is a name for the engine."""
    return source.startswith(_LOCAL)


def names_a_file(source: str) -> bool:
    """Whether an ``hf:`` source has organisation, repository and file, as a download needs."""
    parts = source.removeprefix("hf:").split("/", _HUB_PARTS - 1)
    return len(parts) == _HUB_PARTS and all(parts)


def download_url(source: str) -> str:
    """The address that a remote source stands for; ``hf:org/repo/file`` lies on the hub's main branch."""
    if not source.startswith("hf:"):
        return source
    organisation, repository, file = source.removeprefix("hf:").split("/", _HUB_PARTS - 1)
    return f"{_HUB}/{organisation}/{repository}/resolve/main/{file}"


def cache_name(source: str) -> str:
    """The file name of a remote source in a cache: a digest of the source as written and its readable tail."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    tail = posixpath.basename(_without_query(source).rstrip("/"))
    return f"{digest}-{tail if tail not in {'', '.', '..'} else 'weights'}"


def holds(source: str, paths: Iterable[str]) -> bool:
    """Whether one of a node's weight paths is this source; a partial download never is."""
    whole = [p for p in paths if not p.endswith(PARTIAL_SUFFIXES)]
    if is_remote(source):
        name = cache_name(source)
        return any(posixpath.basename(p) == name for p in whole)
    if is_path(source):
        return posixpath.normpath(source) in map(posixpath.normpath, whole)
    repository = source.rsplit("/", 1)[-1]
    return any(posixpath.basename(p) == repository for p in whole)


def _without_query(source: str) -> str:
    if source.startswith("hf:"):
        return source
    return source.partition("#")[0].partition("?")[0]
