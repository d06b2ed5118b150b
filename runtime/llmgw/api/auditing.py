"""Has every write kept in the log of acts, what came of it included.

Done here once for all routes, so that none can be forgotten. A read, and a request that meets no
route, is not told of. The answer waits for the entry, which is bounded by who keeps it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llmgw.api import acting
from llmgw.api.acting import Act
from llmgw.api.ports import Audit

DONE = "done"


class Auditor:
    """ASGI middleware around the routes."""

    def __init__(self, app: ASGIApp, *, audit: Audit) -> None:
        """Entries go to ``audit``."""
        self._app = app
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        who = acting.actor(Headers(scope=scope), request_id=state.get("request_id", ""))
        act = state["act"] = Act(who)

        async def send_once_kept(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_told(scope, act):
                await self._note(scope, act, status=message["status"])
            await send(message)

        await self._app(scope, receive, send_once_kept)

    async def _note(self, scope: Scope, act: Act, *, status: int) -> None:
        is_done = status < HTTPStatus.BAD_REQUEST
        is_ours = status >= HTTPStatus.INTERNAL_SERVER_ERROR
        await self._audit.note(
            act.actor,
            action=act.action or _action(scope["route"]),
            target=act.target or "/".join(map(str, scope.get("path_params", {}).values())),
            outcome=(
                DONE
                if is_done
                else scope["state"].get("refused", "internal" if is_ours else "invalid")
            ),
            before=act.before if is_done else None,
            after=act.after,
        )


def _is_told(scope: Scope, act: Act) -> bool:
    route = scope.get("route")
    if route is None or act.changes_nothing:
        return False
    return acting.is_write(
        method=scope["method"], openapi_extra=getattr(route, "openapi_extra", None)
    )


def _action(route: Any) -> str:
    """``models`` and ``roll`` make ``model.roll``."""
    noun = next((str(tag).removesuffix("s") for tag in route.tags), "")
    return f"{noun}.{route.name}" if noun else str(route.name)
