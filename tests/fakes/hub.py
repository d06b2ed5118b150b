"""A hub for tests: repositories with commits, large files in a store of another host, closed doors.

Its answers have the shapes of the real one; ``tests/contract/hub`` holds both against what the real
one has said. Bytes of large files come from a second server, by an address that holds once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from tests.fakes.http_files import Body, HttpFiles, Plain, Reply, Request, serving

COMMIT = "5359861c739e955e79d9a303bcbc70fb988958b1"
LFS_FROM_BYTES = 4096
"""The real hub keeps some files in its large file storage whatever their size; here size tells."""

_API = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)/(?P<verb>revision|tree)/(?P<revision>.+)")
_RESOLVE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")


@dataclass
class Repository:
    """One repository at one commit."""

    files: dict[str, Body]
    commit: str = COMMIT
    revisions: tuple[str, ...] = ("main",)
    is_gated: bool = False
    readers: tuple[str, ...] = ()
    lies: dict[str, str] = field(default_factory=dict)
    """Digests that are published wrongly, by path."""

    def digest(self, path: str) -> str:
        body = self.files[path]
        return self.lies.get(path) or hashlib.sha256(body.read(0, body.length)).hexdigest()


@dataclass
class Hub:
    """The front and the store."""

    repositories: dict[str, Repository]
    page_entries: int = 1000
    cuts: dict[str, list[int]] = field(default_factory=dict)
    """After how many bytes the next answers for a path break off."""
    store_etag: str = '"store-v1"'
    front: HttpFiles = field(init=False)
    store: HttpFiles = field(init=False)
    signatures: set[str] = field(default_factory=set)
    _numbers: count[int] = field(default_factory=count)

    @property
    def url(self) -> str:
        return self.front.url

    def answer(self, request: Request) -> Reply:
        if match := _API.fullmatch(request.path):
            refusal = self._refusal(match["repo"], request, lists=True)
            return refusal or self._listing(match, request)
        if match := _RESOLVE.fullmatch(request.path):
            return self._refusal(match["repo"], request) or self._resolved(match)
        return Reply(404)

    def stored(self, request: Request) -> Reply:
        """A file of the store, for whoever has an address that was not used yet."""
        if request.query not in self.signatures:
            return Reply(403, {"Content-Type": "application/xml"}, Plain(b"<Error/>"))
        self.signatures.discard(request.query)
        repo, _, path = request.path.removeprefix("/").partition("//")
        body = self.repositories[repo].files[path]
        cuts = self.cuts.get(path, [])
        cut_after = cuts.pop(0) if cuts else None
        return Reply(200, {"ETag": self.store_etag}, body, cut_after=cut_after)

    def _refusal(self, repo: str, request: Request, *, lists: bool = False) -> Reply | None:
        found = self.repositories.get(repo)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if found is None:
            status = 404 if token else 401
            return _refused(status, "RepoNotFound", "Repository not found")
        if found.is_gated and not lists and token not in found.readers:
            message = f"Access to model {repo} is restricted."
            return _refused(403 if token else 401, "GatedRepo", message)
        return None

    def _listing(self, match: re.Match[str], request: Request) -> Reply:
        repository = self.repositories[match["repo"]]
        if match["revision"] not in {*repository.revisions, repository.commit}:
            return _refused(404, "RevisionNotFound", f"Invalid rev id: {match['revision']}")
        if match["verb"] == "revision":
            return _json({"id": match["repo"], "sha": repository.commit, "gated": False})
        entries = list(self._tree(repository))
        cursor = re.search(r"cursor=(\d+)", request.query)
        start = int(cursor[1]) if cursor else 0
        reply = _json(entries[start : start + self.page_entries])
        if start + self.page_entries < len(entries):
            following = f"{request.path}?recursive=true&cursor={start + self.page_entries}"
            reply.headers["Link"] = f'<{self.front.url}{following}>; rel="next"'
        return reply

    def _tree(self, repository: Repository):
        for folder in sorted({path.rpartition("/")[0] for path in repository.files} - {""}):
            yield {"type": "directory", "oid": _blob(b""), "size": 0, "path": folder}
        for path, body in sorted(repository.files.items()):
            entry: dict[str, object] = {"type": "file", "size": body.length, "path": path}
            if body.length >= LFS_FROM_BYTES:
                digest = repository.digest(path)
                pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\n"
                lfs = {"oid": digest, "size": body.length, "pointerSize": len(pointer)}
                entry |= {"oid": _blob(pointer.encode()), "lfs": lfs, "xetHash": digest[::-1]}
            else:
                entry["oid"] = _blob(body.read(0, body.length))
            yield entry

    def _resolved(self, match: re.Match[str]) -> Reply:
        repository, path = self.repositories[match["repo"]], match["path"]
        if match["revision"] not in {*repository.revisions, repository.commit}:
            return _refused(404, "RevisionNotFound", f"Invalid rev id: {match['revision']}")
        if path not in repository.files:
            return _refused(404, "EntryNotFound", "Entry not found")
        body = repository.files[path]
        commit = {"X-Repo-Commit": repository.commit}
        if body.length < LFS_FROM_BYTES:
            return Reply(200, {**commit, "ETag": f'"{_blob(body.read(0, body.length))}"'}, body)
        signature = f"Expires=1&Signature={next(self._numbers)}"
        self.signatures.add(signature)
        return Reply(
            302,
            {
                **commit,
                "X-Linked-Size": str(body.length),
                "X-Linked-Etag": f'"{repository.digest(path)}"',
                "Location": f"{self.store.url}/{match['repo']}//{path}?{signature}",
            },
        )


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _json(value: object) -> Reply:
    body = Plain(json.dumps(value).encode())
    return Reply(200, {"Content-Type": "application/json; charset=utf-8"}, body)


def _refused(status: int, code: str, message: str) -> Reply:
    headers = {"X-Error-Code": code, "X-Error-Message": message}
    return Reply(status, headers, Plain(json.dumps({"error": message}).encode()))


@contextlib.asynccontextmanager
async def serving_hub(repositories: Mapping[str, Repository], **knobs) -> AsyncIterator[Hub]:
    """A hub and its store, each on a port of its own."""
    hub = Hub(dict(repositories), **knobs)
    async with serving(hub.answer) as hub.front, serving(hub.stored) as hub.store:
        yield hub
