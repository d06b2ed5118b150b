"""Where the weights of a source are: what is remote, the name in a node's cache, who holds them.

The agent names its downloads by these rules and the control plane looks for them;
so both sides share this module.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from llmgw.errors import Invalid

PART_SUFFIXES = (".part", ".partial")
"""Ends of the names of a file and of a folder that have not come whole."""

PARTIAL_SUFFIXES = (*PART_SUFFIXES, ".trash")
"""Those, and the end of the names of removals under way; they hold nothing."""

RESERVED_SUFFIXES = (*PARTIAL_SUFFIXES, ".part.json", ".lock")
"""Ends of names that no whole download has: those, and what lies beside a part."""

MOST_PARTS = 2000
"""A split model has fewer parts than this."""

_REMOTE = ("hf:", "http://", "https://")
_LOCAL = ("/", "./", "../")
_TAIL_CHARACTERS = 160
"""A file name has at most 255 bytes, of which the digest and ``.part.json`` need some."""

_OWNED = re.compile(r"[0-9a-f]{16}-.+", re.DOTALL)
_NOT_READABLE = re.compile(r"[^A-Za-z0-9._+=@~-]+")
_HUB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,254}")
_SPLIT = re.compile(r"(?P<stem>.+)-(?P<index>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_PINNED = re.compile(r"sha256=([0-9a-fA-F]{64})")
_HUB_FORMS = "write hf:ORG/REPO/FILE, hf:ORG/REPO or hf:ORG/REPO@REVISION:PATTERN"


@dataclass(frozen=True, slots=True)
class HubSource:
    """Files of a repository on the hub; an empty pattern means: whatever an engine loads."""

    repository: str
    revision: str = "main"
    pattern: str = ""


def is_remote(source: str) -> bool:
    """Whether the agent downloads it."""
    return source.startswith(_REMOTE)


def is_path(source: str) -> bool:
    """Whether it is a file or folder of the node.

    What is neither this nor remote is a name that the engine itself resolves.
    """
    return source.startswith(_LOCAL)


def names_a_version(source: str) -> bool:
    """Whether an address names a version on a mirror, which is a folder with a manifest."""
    return source.startswith(("http://", "https://")) and without_query(source).endswith("/")


def check(source: str) -> None:
    """Raise ``Invalid`` for a remote source that is not written as one, with how to write it."""
    if source.startswith("hf:"):
        hub_source(source)
    elif is_remote(source):
        try:
            parts = urlsplit(source)
            is_address = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            is_address = False
        if not is_address:
            raise Invalid(f"{shown(source)} is no address: write http://HOST/PATH")


def hub_source(source: str) -> HubSource:
    """An ``hf:`` source taken apart; ``Invalid`` when it is written otherwise."""
    head, colon, pattern = source.removeprefix("hf:").partition(":")
    organisation, _, rest = head.partition("/")
    name, at, revision = rest.partition("@")
    if "/" in name:  # hf:ORG/REPO/FILE[@REVISION], where the file's name may hold an @ too
        path, at, revision = rest.rpartition("@") if at else (rest, "", "")
        name, _, file = path.partition("/")
        colon, pattern = ("", file) if not colon else (colon, "")
        if not file or colon:
            raise Invalid(f"{source!r} names no file of the hub: {_HUB_FORMS}")
    made = HubSource(f"{organisation}/{name}", revision or "main", pattern)
    is_legal = _HUB_NAME.fullmatch(organisation) and _HUB_NAME.fullmatch(name)
    if not is_legal or (colon and not pattern) or (at and not revision):
        raise Invalid(f"{source!r} names nothing on the hub: {_HUB_FORMS}")
    if _REVISION.fullmatch(made.revision) is None or ".." in made.revision:
        raise Invalid(f"{source!r}: {made.revision!r} is no branch, tag or commit")
    if pattern and not is_inside(pattern):
        raise Invalid(f"{source!r}: {pattern!r} leads out of the repository")
    return made


def is_inside(path: str) -> bool:
    """Whether a relative path stays below the folder that it is put in, whoever wrote it."""
    parts = path.split("/")
    return (
        path.isprintable()
        and "\\" not in path
        and all(part not in {"", ".", ".."} and len(part.encode()) <= 200 for part in parts)
    )


def is_glob(pattern: str) -> bool:
    """Whether it stands for any number of files, and is not the name of one."""
    return any(sign in pattern for sign in "*?[")


def split_names(name: str) -> tuple[str, ...]:
    """The names of all parts of a split GGUF of which this is one; none for any other file."""
    match = _SPLIT.fullmatch(name)
    count = int(match["count"]) if match else 0
    if match is None or not 1 <= int(match["index"]) <= count < MOST_PARTS:
        return ()
    stem, end = match["stem"], name[-len(".gguf") :]
    return tuple(f"{stem}-{i:05}-of-{match['count']}{end}" for i in range(1, count + 1))


def pinned_sha256(source: str) -> str:
    """The digest that an address demands by ``#sha256=…``; empty when it demands none."""
    if source.startswith("hf:"):
        return ""
    match = _PINNED.fullmatch(source.partition("#")[2])
    return match[1].lower() if match else ""


def cache_name(source: str) -> str:
    """The name of a remote source in a cache: a digest of the source as written, then its tail."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    tail = _NOT_READABLE.sub("_", _tail(source))[-_TAIL_CHARACTERS:]
    if tail.endswith(RESERVED_SUFFIXES):
        tail += "_"
    return f"{digest}-{tail if tail.strip('._') else 'weights'}"


def is_owned(name: str) -> bool:
    """Whether a file or folder of this name was made by a download, and not by a person."""
    return _OWNED.fullmatch(name) is not None


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


def orphans(paths: Iterable[str], sources: Iterable[str]) -> tuple[str, ...]:
    """The downloads among the paths that none of the sources names, once each, in order.

    ``sources`` must be all of the catalog. Only what a download made can be an orphan. A part of
    one can, too: its node, which alone knows whether somebody fills it, tells of no other parts.
    """
    wanted = {cache_name(source) for source in sources if is_remote(source)}
    return tuple(sorted(path for path in set(paths) if _is_orphan(path, wanted)))


def whole_of_part(name: str) -> str:
    """The name that a part has when it is whole; any other name as it is."""
    for suffix in PART_SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def shown(source: str) -> str:
    """A source as logs and messages may hold it: without the secrets that an address can carry."""
    if source.startswith("hf:") or not is_remote(source):
        return source
    try:
        parts = urlsplit(source)
    except ValueError:
        return f"{source.partition('://')[0]}://…"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def without_query(source: str) -> str:
    """An address without its query and fragment."""
    return source.partition("#")[0].partition("?")[0]


def _is_orphan(path: str, wanted: Collection[str]) -> bool:
    name = posixpath.basename(path)
    return is_owned(name) and not name.endswith(".trash") and whole_of_part(name) not in wanted


def _tail(source: str) -> str:
    """The part of a source that says most to a person; a file keeps the end of its name."""
    if source.startswith("hf:"):
        try:
            hub = hub_source(source)
        except Invalid:
            return posixpath.basename(source.rstrip("/"))
        if not is_glob(hub.pattern):
            return posixpath.basename(hub.pattern or hub.repository)
        return f"{posixpath.basename(hub.repository)}-{hub.pattern.replace('/', '-')}"
    return posixpath.basename(without_query(source).rstrip("/"))
