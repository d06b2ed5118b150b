"""Asks the hub what a source of it consists of: the commit, the files, their sizes and digests.

Shapes: ``GET /api/models/REPO/revision/REV`` answers ``{"sha": …}``, ``GET
/api/models/REPO/tree/COMMIT?recursive=true`` a list of ``{"type", "path", "size", "oid", "lfs"?:
{"oid", "size"}}`` in pages linked by ``Link: <…>; rel="next"``; ``/REPO/resolve/COMMIT/PATH``
sends on to the bytes (https://huggingface.co/docs/hub/api).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from llmgw.agent.weights import digests, listings, remote_files, selecting
from llmgw.agent.weights.remote_files import RemoteFile, RemoteSet
from llmgw.domain import weights
from llmgw.errors import Invalid

_MOST_PAGES = 200
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Hub:
    """Where the hub is, and the token that its requests carry, if there is one."""

    url: str
    headers: Mapping[str, str] = field(repr=False)

    def owns(self, url: str) -> bool:
        """Whether an address is the hub's own, so that it may see the token."""
        return urlsplit(url)[:2] == urlsplit(self.url)[:2]


def at(url: str, *, token: str) -> Hub:
    """The hub at an address; ``Invalid`` when the token would cross a network in clear."""
    parts = urlsplit(url)
    if token and parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise Invalid(
            f"weights.hub_token is not sent to {url}, where everybody on the way can read it; "
            "write weights.hub_url with https"
        )
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return Hub(url.rstrip("/"), headers)


async def look_up(source: str, *, client: httpx.AsyncClient, hub: Hub) -> RemoteSet:
    """What a source of the hub consists of now, pinned to the commit that its revision is at.

    Raises ``Unreachable`` where another try may help, and what the refusal means otherwise.
    """
    wanted = weights.hub_source(source)
    asked = quote(wanted.revision, safe="")
    api = f"{hub.url}/api/models/{wanted.repository}"
    described = _parsed(await listings.ask(client, f"{api}/revision/{asked}", headers=hub.headers))
    commit = described.get("sha") if isinstance(described, dict) else None
    if not isinstance(commit, str) or not commit.isalnum():
        raise Invalid(f"{source}: {hub.url} does not answer as the hub does; see weights.hub_url")
    base = f"{hub.url}/{wanted.repository}/resolve/{commit}"
    files = [
        file
        for entry in await _tree(client, f"{api}/tree/{commit}?recursive=true", hub=hub)
        if (file := _file(entry, base=base)) is not None
    ]
    files_by_path = {file.path: file for file in files}
    chosen = selecting.select(sorted(files_by_path), pattern=wanted.pattern, source=source)
    found = [files_by_path[path] for path in chosen]
    if len(found) == 1 and wanted.pattern and not weights.is_glob(wanted.pattern):
        return remote_files.single(found[0], revision=commit)
    return remote_files.folder(found, source=source, revision=commit)


async def _tree(client: httpx.AsyncClient, url: str, *, hub: Hub) -> list[Mapping[str, Any]]:
    entries: list[Mapping[str, Any]] = []
    for _ in range(_MOST_PAGES):
        response = await listings.ask(client, url, headers=hub.headers)
        listed = _parsed(response)
        if not isinstance(listed, list):
            raise Invalid(f"{url} lists no files; see weights.hub_url")
        entries += [entry for entry in listed if isinstance(entry, dict)]
        following = response.links.get("next", {}).get("url", "")
        if not following:
            return entries
        url = str(response.url.join(following))
        if not hub.owns(url):
            raise Invalid(f"{hub.url} continues its list of files on another host, at {url}")
    raise Invalid(f"{url}: the list of files does not end after {_MOST_PAGES} pages")


def _parsed(response: httpx.Response) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError) as error:
        raise Invalid(
            f"{response.url} does not answer as the hub does; see weights.hub_url"
        ) from error


def _file(entry: Mapping[str, Any], *, base: str) -> RemoteFile | None:
    path, size = entry.get("path"), entry.get("size")
    if entry.get("type") != "file" or not isinstance(path, str):
        return None
    stored = entry.get("lfs")
    if isinstance(stored, dict):
        # For these the oid beside it is that of the pointer, and says nothing of the content.
        digest, size = digests.sha256(stored.get("oid")), stored.get("size", size)
    else:
        digest = digests.git_blob(entry.get("oid"))
    size_bytes = size if isinstance(size, int) and size >= 0 else None
    return RemoteFile(path, f"{base}/{quote(path)}", size_bytes, digest)
