"""What a control plane that does not lead answers: no write, and a word beside every read."""

from __future__ import annotations

from typing import cast

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llmgw.api import acting
from llmgw.api.ports import Control, Lead
from llmgw.domain.actors import LEADER_HEADER, STANDING_HEADER
from llmgw.domain.status_views import LeadView
from llmgw.errors import Standby, Unavailable


def check_write(request: Request) -> None:
    """A dependency of every route: nothing is written through one that does not lead.

    ``Standby`` with the leader's address, ``Unavailable`` where the lease has only run out.
    """
    extra = getattr(request.scope.get("route"), "openapi_extra", None)
    if not acting.is_write(method=request.method, openapi_extra=extra):
        return
    lead = cast("Control", request.app.state.control).lead.lead()
    if not lead.is_leader:
        raise _refusal(lead)


class StandbySign:
    """ASGI middleware: answers of one that does not lead say so in their headers."""

    def __init__(self, app: ASGIApp, *, lead: Lead) -> None:
        """``lead`` says how it stands."""
        self._app = app
        self._lead = lead

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def send_signed(message: Message) -> None:
            if message["type"] == "http.response.start":
                _sign(MutableHeaders(scope=message), self._lead.lead())
            await send(message)

        await self._app(scope, receive, send_signed if scope["type"] == "http" else send)


def _sign(headers: MutableHeaders, lead: LeadView) -> None:
    if lead.is_leader:
        return
    headers[STANDING_HEADER] = lead.standing
    if lead.address:
        headers[LEADER_HEADER] = lead.address


def _refusal(lead: LeadView) -> Unavailable:
    if lead.standing == "lapsed":
        return Unavailable(
            "this control plane could not renew its lease, so nothing may be changed until its "
            "store answers; try again"
        )
    if not lead.address:
        return Standby(
            "this control plane is a standby, and no leader is known yet; try again in a moment"
        )
    return Standby(
        f"this control plane is a standby; ask the one that leads, at {lead.address}",
        leader=lead.address,
    )
