"""Asks whether the weights of a source are there, before any node is involved.

Every way to add a model goes through this one, from the control plane's host, within bounds: some
seconds, one byte of content, and no other host than the one that is named. What only a node or an
engine can find (a path, a name that the engine resolves) passes with a note.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from urllib.parse import quote, urlsplit, urlunsplit

import httpx

from llmgw.domain import weights
from llmgw.domain.catalog_views import SourceView
from llmgw.errors import Invalid

CONNECT_S = 5.0
TOTAL_S = 10.0
_MOST_REDIRECTS = 5
_MANIFEST = "manifest.json"
_AT_ONCE = 4
_SHOWN_CHARACTERS = 200

_GONE = frozenset({404, 410})
_REFUSALS: Mapping[int, str] = {
    401: "it needs access: it asks for a login",
    403: "it needs access: it may not be fetched from here",
    404: "there is no such file",
    410: "the file is gone",
}
_HUB_REFUSALS: Mapping[str, str] = {
    "GatedRepo": (
        "it needs access: its licence must be accepted on the hub's page of the repository, and "
        "control.hub_token set to a token of that account"
    ),
    "RepoNotFound": (
        "there is no such repository, or it is private and control.hub_token may not read it"
    ),
    "RevisionNotFound": "there is no such branch, tag or commit",
    "EntryNotFound": "there is no such file in the repository",
}
"""By ``x-error-code``, https://huggingface.co/docs/hub/api: statuses do not tell these apart."""


class SourceCheck:
    """Looks where sources point, from this host; a hub's token goes to the hub alone."""

    def __init__(
        self,
        *,
        hub_url: str,
        hub_token: Callable[[], str] = str,
        connect_s: float = CONNECT_S,
        total_s: float = TOTAL_S,
    ) -> None:
        """``hub_url`` is where sources that begin with ``hf:`` are.

        The token is read at each use, and sent where nobody on the way can read it.
        """
        self._hub_url = hub_url.rstrip("/")
        self._hub_token = hub_token
        self._connect_s, self._total_s = connect_s, total_s
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._trust: ssl.SSLContext | None = None

    async def check(self, source: str) -> SourceView:
        """What is known of a source; never raises, for a refusal is an answer."""
        if not weights.is_remote(source):
            return SourceView(source, is_good=None, detail=_elsewhere(source))
        try:
            weights.check(source)
            url, headers = self._place(source)
        except Invalid as error:
            return SourceView(source, is_good=False, detail=error.message)
        async with self._turns:
            return await self._looked_at(source, url=url, headers=headers)

    def _place(self, source: str) -> tuple[str, Mapping[str, str]]:
        if source.startswith("hf:"):
            return _on_hub(weights.hub_source(source), hub_url=self._hub_url), self._hub_headers()
        parts = urlsplit(source)
        name = _MANIFEST if weights.names_a_version(source) else ""
        return urlunsplit(parts._replace(path=parts.path + name, fragment="")), {}

    def _hub_headers(self) -> Mapping[str, str]:
        is_private = self._hub_url.startswith(("https://", "http://127.0.0.1:"))
        token = self._hub_token() if is_private else ""
        return {"authorization": f"Bearer {token}"} if token else {}

    async def _trusted(self) -> ssl.SSLContext:
        """The authorities of this host, read once: that takes as long as many questions."""
        if self._trust is None:
            self._trust = await asyncio.to_thread(httpx.create_ssl_context)
        return self._trust

    async def _looked_at(self, source: str, *, url: str, headers: Mapping[str, str]) -> SourceView:
        bounds = httpx.Timeout(self._total_s, connect=self._connect_s)
        try:
            async with (
                asyncio.timeout(self._total_s),
                httpx.AsyncClient(
                    timeout=bounds, headers=dict(headers), verify=await self._trusted()
                ) as client,
            ):
                return _verdict(source, await _asked(client, url))
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
            why = str(error) or type(error).__name__
            if isinstance(error, (TimeoutError, httpx.TimeoutException)):
                why = f"no answer within {self._total_s:g} s"
            return SourceView(
                source,
                is_good=False,
                detail=f"{_short(url)} is unreachable from the control plane: {why[:200]}",
            )


def _on_hub(hub: weights.HubSource, *, hub_url: str) -> str:
    """One file's address, or that of the repository where several are meant."""
    revision = quote(hub.revision, safe="")
    if hub.pattern and not weights.is_glob(hub.pattern):
        return f"{hub_url}/{hub.repository}/resolve/{revision}/{quote(hub.pattern)}"
    return f"{hub_url}/api/models/{hub.repository}/revision/{revision}"


async def _asked(client: httpx.AsyncClient, url: str) -> httpx.Response:
    """The answer to HEAD, or to a request for one byte where HEAD is refused; no other host's."""
    asked = httpx.URL(url)
    for _ in range(_MOST_REDIRECTS):
        answer = await _head(client, asked)
        target = answer.next_request
        if target is None or _origin(target.url) != _origin(asked):
            return answer
        asked = target.url
    raise httpx.TooManyRedirects("it sends on without end")


async def _head(client: httpx.AsyncClient, url: httpx.URL) -> httpx.Response:
    answer = await client.head(url)
    if not answer.is_error or answer.status_code in _GONE:
        return answer
    async with client.stream("GET", url, headers={"range": "bytes=0-0"}) as begun:
        return begun


def _origin(url: httpx.URL) -> tuple[str, str]:
    return url.scheme, url.netloc.decode()


def _verdict(source: str, answer: httpx.Response) -> SourceView:
    where, status = _short(str(answer.url)), answer.status_code
    if answer.is_redirect:
        host = answer.next_request.url.host if answer.next_request is not None else "another host"
        return SourceView(
            source,
            is_good=True,
            detail=f"{where} sends on to {host}, which was not asked",
            size_bytes=_number(answer.headers.get("x-linked-size")),
        )
    if status not in {200, 206}:
        hub_word = _HUB_REFUSALS.get(answer.headers.get("x-error-code", ""))
        said = hub_word or _REFUSALS.get(status, "it cannot be fetched now")
        return SourceView(source, is_good=False, detail=f"{where} answers {status}: {said}")
    if answer.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/html":
        return SourceView(source, is_good=False, detail=f"{where} is a page, not weights")
    path = answer.url.path
    is_description = path.endswith(f"/{_MANIFEST}") or path.startswith("/api/models/")
    return SourceView(
        source, is_good=True, detail="", size_bytes=None if is_description else _size(answer)
    )


def _short(url: str) -> str:
    """An address as it may be told: without secrets, and not longer than a line or two."""
    shown = weights.shown(url)
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}…"


def _size(answer: httpx.Response) -> int | None:
    """The size of the whole, which an answer with one byte tells behind the slash."""
    told = answer.headers.get("content-range", "").rpartition("/")[2]
    return _number(told if answer.status_code == 206 else answer.headers.get("content-length"))


def _number(written: str | None) -> int | None:
    return int(written) if written and written.isdecimal() else None


def _elsewhere(source: str) -> str:
    if weights.is_path(source):
        return "a path of the nodes; only they can tell whether it is there"
    return "a name that the engine resolves itself; only it can tell whether it is there"
