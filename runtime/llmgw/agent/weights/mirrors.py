"""Asks a mirror, or any web server, what an address consists of.

A version on a mirror is an address that ends in ``/``. Its ``manifest.json`` lists ``{"files":
[{"path", "size", "sha256"}]}``; other keys are left alone. Any other address is one file, or one
part of a split model whose other parts lie beside it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import httpx

from llmgw.agent.weights import digests, listings, remote_files
from llmgw.agent.weights.remote_files import RemoteFile, RemoteSet
from llmgw.domain import weights
from llmgw.errors import Invalid, Unknown

MANIFEST = "manifest.json"


async def look_up(source: str, *, client: httpx.AsyncClient) -> RemoteSet:
    """What an address consists of; ``Unknown`` or ``Invalid`` for a folder without a manifest."""
    if weights.names_a_version(source):
        return await _version(source, client=client)
    return by_name(source)


def by_name(source: str) -> RemoteSet:
    """A file, or all parts of a split model, told by the name alone."""
    parts = urlsplit(source)
    folder, name = posixpath.split(parts.path)
    names = weights.split_names(unquote(name))
    pinned = digests.sha256(weights.pinned_sha256(source))
    if not names:
        url = urlunsplit(parts._replace(fragment=""))
        return remote_files.single(RemoteFile(unquote(name), url, digest=pinned))
    if pinned is not None:
        raise Invalid(
            f"{weights.shown(source)} is one part of {len(names)}, which one #sha256 does not pin"
        )
    return remote_files.folder(
        [
            RemoteFile(
                part, urlunsplit(parts._replace(path=f"{folder}/{quote(part)}", fragment=""))
            )
            for part in names
        ],
        source=weights.shown(source),
    )


async def _version(source: str, *, client: httpx.AsyncClient) -> RemoteSet:
    shown, parts = weights.shown(source), urlsplit(source)
    url = urlunsplit(parts._replace(path=parts.path + MANIFEST, fragment=""))
    try:
        response = await listings.ask(client, url)
    except Unknown as error:
        raise Unknown(
            f"{shown} is no version on a mirror: there is no {MANIFEST} in it; "
            "a single file is named without / at the end"
        ) from error
    try:
        listed = response.json()["files"]
        files = [_file(entry, below=parts._replace(fragment="")) for entry in listed]
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise Invalid(f"{weights.shown(url)} is no manifest of a mirror") from error
    return remote_files.folder(files, source=shown)


def _file(entry: Mapping[str, Any], *, below: Any) -> RemoteFile:
    path, size = str(entry["path"]), entry.get("size")
    return RemoteFile(
        path,
        urlunsplit(below._replace(path=below.path + quote(path))),
        size if isinstance(size, int) and size >= 0 else None,
        digests.sha256(entry.get("sha256")),
    )
