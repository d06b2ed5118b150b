"""Keeps web pages out of the admin API.

It asks for no login, because only this machine reaches it; a browser on this machine would carry a
foreign page's requests in.  Such a request gives itself away: it names a foreign origin, or, when
the page's own name was made to point here, a foreign host.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from llmgw.api import problems
from llmgw.errors import Denied

_LOCAL = "localhost"


class Doorkeeper:
    """ASGI middleware: lets in who asks by address, as ``localhost`` or by one of ``names``."""

    def __init__(self, app: ASGIApp, *, names: Collection[str] = ()) -> None:
        """``names`` are further host names of this machine."""
        self._app = app
        self._names = frozenset(name.lower() for name in (_LOCAL, *names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or answer 403 with the reason."""
        refused = self._refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        if refused is None:
            await self._app(scope, receive, send)
        else:
            request_id = scope.get("state", {}).get("request_id", "")
            await problems.answer(refused, request_id=request_id)(scope, receive, send)

    def _refusal(self, headers: Headers) -> Denied | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return Denied(
                f"the admin API was asked as {host[:256]!r}; "
                "ask by address, as localhost, or by this machine's host name"
            )
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return Denied(f"the admin API takes no requests of pages from {origin[:256]!r}")
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
