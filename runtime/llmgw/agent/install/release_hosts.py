"""The three kinds of places that releases come from, and how one is named on the command line.

Bundles and mirrors have a folder ``engines/<engine>/<version>/`` with a ``SHA256SUMS``; the public
site answers as GitHub does. Nothing is resumed: an archive is fetched whole or not at all.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx

from llmgw.agent.install import releases
from llmgw.agent.install.releases import DIGEST, SUMS, OnBytes, Source, Wanted
from llmgw.errors import Exhausted, Invalid, LlmgwError, Unknown, Unreachable

GITHUB_API = "https://api.github.com"
GITHUB = "https://github.com"

_BLOCK_BYTES = 1024 * 1024
_MAX_LIST_BYTES = 8 * 1024 * 1024
_MAX_ASSET_BYTES = 16 * 1024**3
_TIMEOUT = httpx.Timeout(30.0, read=60.0)


def parse(written: str) -> Source:
    """``bundle=DIR``, ``mirror=URL``, ``github`` or ``github=URL``; ``Invalid`` for others."""
    kind, _, place = written.partition("=")
    match kind, place.rstrip("/"):
        case "bundle", str(folder) if folder:
            return Folder(Path(folder))
        case "mirror", str(url) if _is_url(url):
            return Mirror(url)
        case "github", "":
            return GitHub()
        case "github", str(url) if _is_url(url):
            return GitHub(api=url, downloads=url)
    raise Invalid(f"{written!r} is no source: write bundle=DIR, mirror=URL, github or github=URL")


@dataclass(frozen=True, slots=True)
class Folder:
    """An unpacked bundle on this machine."""

    base: Path

    @property
    def name(self) -> str:
        """See ``Source``."""
        return f"bundle {self.base}"

    def digests(self, wanted: Wanted) -> Mapping[str, str]:
        """See ``Source``."""
        try:
            return releases.read_sums((self._place(wanted) / SUMS).read_text())
        except FileNotFoundError as error:
            raise Unknown(f"has no {self._place(wanted) / SUMS}") from error
        except OSError as error:
            raise Unknown(f"{self._place(wanted) / SUMS}: {error.strerror}") from error

    def fetch(self, wanted: Wanted, asset: str, *, target: Path, on_bytes: OnBytes) -> str:
        """See ``Source``."""
        path = self._place(wanted) / asset
        try:
            with path.open("rb") as source:
                blocks = iter(lambda: source.read(_BLOCK_BYTES), b"")
                return _pour(blocks, target, on_bytes=on_bytes, total=path.stat().st_size)
        except FileNotFoundError as error:
            raise Unknown(f"{path} is not there") from error

    def _place(self, wanted: Wanted) -> Path:
        return self.base / "engines" / wanted.engine / wanted.version


@dataclass(frozen=True, slots=True)
class Mirror:
    """A mirror of the site's own."""

    base: str

    @property
    def name(self) -> str:
        """See ``Source``."""
        return f"mirror {self.base}"

    def digests(self, wanted: Wanted) -> Mapping[str, str]:
        """See ``Source``."""
        return releases.read_sums(_text(f"{self._place(wanted)}/{SUMS}"))

    def fetch(self, wanted: Wanted, asset: str, *, target: Path, on_bytes: OnBytes) -> str:
        """See ``Source``."""
        return _download(f"{self._place(wanted)}/{quote(asset)}", target, on_bytes=on_bytes)

    def _place(self, wanted: Wanted) -> str:
        return f"{self.base}/engines/{quote(wanted.engine)}/{quote(wanted.version)}"


@dataclass(frozen=True, slots=True)
class GitHub:
    """The public release site, or one that answers like it."""

    api: str = GITHUB_API
    downloads: str = GITHUB

    @property
    def name(self) -> str:
        """See ``Source``."""
        return self.downloads

    def digests(self, wanted: Wanted) -> Mapping[str, str]:
        """See ``Source``; a file whose digest is not published is left out."""
        if not wanted.repo:
            raise Unknown(f"{wanted.engine} is not published there; give a bundle or a mirror")
        url = f"{self.api}/repos/{wanted.repo}/releases/tags/{quote(wanted.version)}"
        answer = _json(url, headers={"Accept": "application/vnd.github+json"})
        match answer:
            case {"assets": list(assets)}:
                return dict(filter(None, map(_published, assets)))
        raise Unreachable(f"{url} answers in another shape than a release site does")

    def fetch(self, wanted: Wanted, asset: str, *, target: Path, on_bytes: OnBytes) -> str:
        """See ``Source``."""
        place = f"{self.downloads}/{wanted.repo}/releases/download/{quote(wanted.version)}"
        return _download(f"{place}/{quote(asset)}", target, on_bytes=on_bytes)


def _published(asset: object) -> tuple[str, str] | None:
    """Name and digest of a file, where a digest of the right kind is published."""
    match asset:
        case {"name": str(name), "digest": str(digest)}:
            kind, _, digits = digest.lower().partition(":")
            return (name, digits) if kind == "sha256" and DIGEST.fullmatch(digits) else None
    return None


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _text(url: str) -> str:
    with _opened(url) as response:
        content = b"".join(_bounded(response, most=_MAX_LIST_BYTES))
    return content.decode("utf-8", "replace")


def _json(url: str, *, headers: Mapping[str, str]) -> object:
    with _opened(url, headers=headers) as response:
        content = b"".join(_bounded(response, most=_MAX_LIST_BYTES))
    try:
        value: object = httpx.Response(200, content=content).json()
    except ValueError as error:
        raise Unreachable(f"{url} answers something that is no JSON") from error
    return value


def _download(url: str, target: Path, *, on_bytes: OnBytes) -> str:
    with _opened(url, headers={"Accept-Encoding": "identity"}) as response:
        length = response.headers.get("content-length", "")
        total = int(length) if length.isdecimal() else None
        blocks = _bounded(response, most=_MAX_ASSET_BYTES)
        return _pour(blocks, target, on_bytes=on_bytes, total=total)


@contextmanager
def _opened(url: str, *, headers: Mapping[str, str] | None = None) -> Iterator[httpx.Response]:
    # The system's own trust: a site's mirror is signed by the site's own authority.
    context = ssl.create_default_context()
    try:
        with (
            httpx.Client(follow_redirects=True, timeout=_TIMEOUT, verify=context) as client,
            client.stream("GET", url, headers=dict(headers or {})) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise _refusal(url, response.status_code)
            yield response
    except httpx.HTTPError as error:
        raise Unreachable(f"{url}: {str(error)[:200] or type(error).__name__}") from error
    except httpx.InvalidURL as error:
        raise Invalid(f"{url} is no valid address: {error}") from error


def _refusal(url: str, status: int) -> LlmgwError:
    if status == httpx.codes.NOT_FOUND:
        return Unknown(f"{url} answers 404: there is no such release")
    if status in {httpx.codes.FORBIDDEN, httpx.codes.TOO_MANY_REQUESTS}:
        return Exhausted(
            f"{url} answers {status}: this address has asked too often; try again in an hour, or "
            "give a bundle or a mirror"
        )
    return Unreachable(f"{url} answers {status}")


def _bounded(response: httpx.Response, *, most: int) -> Iterator[bytes]:
    size = 0
    for block in response.iter_bytes(_BLOCK_BYTES):
        size += len(block)
        if size > most:
            raise Invalid(f"{response.url} sends more than {most} bytes")
        yield block


def _pour(blocks: Iterator[bytes], target: Path, *, on_bytes: OnBytes, total: int | None) -> str:
    digest, done = hashlib.sha256(), 0
    on_bytes(0, total)
    with target.open("wb") as file:
        for block in blocks:
            digest.update(block)
            file.write(block)
            done += len(block)
            on_bytes(done, total)
    return digest.hexdigest()
