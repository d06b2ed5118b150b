"""Where the weights of a source are: what is remote, the name in a node's cache, who holds them.

The agent names its downloads by these rules and the control plane looks for them;
so both sides share this module.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable
from urllib.parse import urlsplit, urlunsplit

PARTIAL_SUFFIXES = (".part", ".partial")
"""Ends of the names of downloads under way; they hold nothing yet."""

_REMOTE = ("hf:", "http://", "https://")
_LOCAL = ("/", "./", "../")
_HUB = "https://huggingface.co"
_HUB_PARTS = 3
_TAIL_CHARACTERS = 160
"""A file name has at most 255 bytes, of which the digest and ``.part.json`` need some."""


def is_remote(source: str) -> bool:
    """Whether the agent downloads it."""
    return source.startswith(_REMOTE)


def is_path(source: str) -> bool:
    """Whether it is a file or folder of the node.

    What is neither this nor remote is a name that the engine itself resolves.
    """
    return source.startswith(_LOCAL)


def names_a_file(source: str) -> bool:
    """Whether an ``hf:`` source has organisation, repository and file, as a download needs."""
    parts = source.removeprefix("hf:").split("/", _HUB_PARTS - 1)
    return len(parts) == _HUB_PARTS and all(parts)


def download_url(source: str) -> str:
    """The address of a remote source; ``hf:org/repo/file`` lies on the hub's main branch."""
    if not source.startswith("hf:"):
        return source
    organisation, repository, file = source.removeprefix("hf:").split("/", _HUB_PARTS - 1)
    return f"{_HUB}/{organisation}/{repository}/resolve/main/{file}"


def cache_name(source: str) -> str:
    """The name of a remote source in a cache: a digest of the source as written, then its tail."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    tail = posixpath.basename(_without_query(source).rstrip("/"))[-_TAIL_CHARACTERS:]
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


def shown(source: str) -> str:
    """A source as logs and messages may hold it: without the secrets that an address can carry."""
    if source.startswith("hf:") or not is_remote(source):
        return source
    try:
        parts = urlsplit(source)
    except ValueError:
        return f"{source.partition('://')[0]}://…"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _without_query(source: str) -> str:
    if source.startswith("hf:"):
        return source
    return source.partition("#")[0].partition("?")[0]
