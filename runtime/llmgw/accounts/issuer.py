"""Asks the provider of logins: where it answers, which keys it has, what a code is worth.

``oidc`` uses it. What was found is kept for a while; a key that is not known is looked for anew,
though not each time that somebody shows one that does not exist.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from llmgw.errors import LoginRefused, Unreachable
from llmgw.kit import logs
from llmgw.kit.clock import Clock

_TIMEOUT_S = 5.0
_MOST_BYTES = 1024 * 1024
_KEPT_S = 3600.0
_AGAIN_AFTER_S = 10.0

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Client:
    """Who we are at the provider."""

    issuer: str
    client_id: str
    secret: Callable[[], str]
    """Looked up at each use, so that a new one counts at once."""


@dataclass(frozen=True, slots=True)
class _Places:
    authorization: str
    exchange: str
    keys: str
    takes_basic: bool


class Issuer:
    """One provider; ``Unreachable`` where it does not answer as one."""

    def __init__(self, client: Client, *, http: httpx.AsyncClient, clock: Clock) -> None:
        """``http`` is closed by who made it."""
        self._client = client
        self._http = http
        self._clock = clock
        self._places: _Places | None = None
        self._places_at = 0.0
        self._keys: Sequence[Mapping[str, Any]] | None = None
        self._keys_at = 0.0

    async def authorization(self) -> str:
        """Where browsers are sent."""
        return (await self._found()).authorization

    async def keys(self, *, is_anew: bool = False) -> Sequence[Mapping[str, Any]]:
        """The keys that it signs with; ``is_anew`` where a token names none of them."""
        age_s = self._clock.monotonic() - self._keys_at
        if self._keys is None or age_s > (_AGAIN_AFTER_S if is_anew else _KEPT_S):
            listed = (await self._get((await self._found()).keys)).get("keys")
            if not isinstance(listed, list):
                raise Unreachable("the provider of logins lists no keys")
            self._keys = [key for key in listed if isinstance(key, dict)]
            self._keys_at = self._clock.monotonic()
            _log.info("login_keys_read", issuer=self._client.issuer, keys=len(self._keys))
        return self._keys

    async def id_token(self, *, code: str, verifier: str, redirect_uri: str) -> str:
        """What the provider gives for a code; ``LoginRefused`` where that is nothing."""
        places, client = await self._found(), self._client
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        basic = None
        if places.takes_basic:  # RFC 6749 §2.3.1: both halves are encoded first
            basic = httpx.BasicAuth(
                quote(client.client_id, safe=""), quote(client.secret(), safe="")
            )
        else:
            form |= {"client_id": client.client_id, "client_secret": client.secret()}
        given = await self._asked("POST", places.exchange, data=form, auth=basic)
        token = given.get("id_token")
        if not isinstance(token, str):
            raise LoginRefused("the provider of logins gave no ID token")
        return token

    async def _found(self) -> _Places:
        now = self._clock.monotonic()
        if self._places is None or now - self._places_at > _KEPT_S:
            issuer = self._client.issuer
            told = await self._get(issuer.rstrip("/") + "/.well-known/openid-configuration")
            if told.get("issuer") != issuer:
                raise Unreachable(
                    f"the provider at {issuer} calls itself {str(told.get('issuer'))[:200]!r}; "
                    "auth.oidc.issuer must be written exactly so"
                )
            self._places, self._places_at = _places(told, issuer=issuer), now
        return self._places

    async def _get(self, url: str) -> Mapping[str, Any]:
        return await self._asked("GET", url)

    async def _asked(
        self,
        method: str,
        url: str,
        *,
        data: Mapping[str, str] | None = None,
        auth: httpx.BasicAuth | None = None,
    ) -> Mapping[str, Any]:
        """A JSON object; an answer of 4xx to a code means that the code is worth nothing."""
        try:
            async with self._http.stream(
                method, url, data=data, auth=auth, timeout=_TIMEOUT_S, follow_redirects=False
            ) as answer:
                body = await _body(answer)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unreachable(f"the provider of logins does not answer: {error!r}") from error
        if data is not None and 400 <= answer.status_code < 500:
            _log.warning("login_code_refused", status=answer.status_code, why=_why(body))
            raise LoginRefused("the provider of logins refused this login; begin again")
        if answer.status_code != 200:
            raise Unreachable(f"the provider of logins answers {answer.status_code} at {url}")
        found = _object(body)
        if found is None:
            raise Unreachable(f"the provider of logins answers no JSON object at {url}")
        return found


async def _body(answer: httpx.Response) -> bytes:
    body = b""
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > _MOST_BYTES:
            raise Unreachable("the provider of logins answers without end")
    return body


def _places(told: Mapping[str, Any], *, issuer: str) -> _Places:
    names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
    urls = [str(told.get(name, "")) for name in names]
    scheme = urlsplit(issuer).scheme
    for name, url in zip(names, urls, strict=True):
        if urlsplit(url).scheme not in {scheme, "https"}:
            raise Unreachable(f"the provider of logins names no safe {name}")
    ways = told.get("token_endpoint_auth_methods_supported")
    takes_basic = not isinstance(ways, list) or "client_secret_basic" in ways
    authorization, exchange, keys = urls
    return _Places(authorization, exchange=exchange, keys=keys, takes_basic=takes_basic)


def _object(body: bytes) -> Mapping[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _why(body: bytes) -> str:
    return str((_object(body) or {}).get("error", ""))[:64]
