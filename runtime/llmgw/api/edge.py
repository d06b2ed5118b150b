"""The outermost edge of the admin API: each request has an id, and no failure lacks a body."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llmgw.api import problems
from llmgw.domain.names import REQUEST_ID
from llmgw.kit import ids, logs

_log = logs.get(__name__)
_HEADER = "x-request-id"


class RequestEdge:
    """ASGI middleware: takes the client's request id or makes one; survives what a route raises."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap ``app``."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(Headers(scope=scope))
        scope.setdefault("state", {})["request_id"] = request_id
        is_begun = False

        async def send_with_id(message: Message) -> None:
            nonlocal is_begun
            if message["type"] == "http.response.start":
                is_begun = True
                MutableHeaders(scope=message)[_HEADER] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception as error:  # noqa: BLE001 - the outermost request edge
            _log.error("admin_request_failed", request_id=request_id, path=scope["path"], exc=error)
            if not is_begun:
                await problems.unexpected(request_id=request_id)(scope, receive, send_with_id)


def _request_id(headers: Headers) -> str:
    given = headers.get(_HEADER, "")
    return given if REQUEST_ID.fullmatch(given) else ids.request_id()
