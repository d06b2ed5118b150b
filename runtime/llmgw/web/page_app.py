"""Makes the ASGI application of the pages, which the gateway reaches by a socket of its own.

It has no admin API: whoever gets here is anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from llmgw.accounts.directory import Directory
from llmgw.accounts.keys import KeyMaking
from llmgw.accounts.oidc import OidcLogin
from llmgw.accounts.sealing import Claiming
from llmgw.accounts.signing_in import SigningIn
from llmgw.api import problems
from llmgw.api.edge import RequestEdge
from llmgw.errors import LlmgwError, NoSession
from llmgw.kit.clock import Clock
from llmgw.web import entry_pages, told_errors
from llmgw.web.addressing import Addressing
from llmgw.web.claim_pages import ClaimPages
from llmgw.web.cookies import Cookies
from llmgw.web.entry_pages import EntryPages
from llmgw.web.frames import Frame
from llmgw.web.profile_pages import ProfilePages
from llmgw.web.provider_pages import ProviderPages
from llmgw.web.rendering import Renderer


@dataclass(frozen=True, slots=True)
class Rooms:
    """What the pages are over."""

    accounts: SigningIn
    keys: KeyMaking
    claiming: Claiming
    directory: Directory
    clock: Clock
    login: OidcLogin | None = None


def create_app(
    rooms: Rooms,
    *,
    public_url: str = "",
    is_signup_open: bool = True,
    others: Sequence[BaseRoute] = (),
) -> Starlette:
    """The pages; ``others`` are routes of rooms that answer programs behind the same socket."""
    addressing = Addressing(public_url)
    frame = Frame(Renderer(), Cookies(is_secure=addressing.is_secure), addressing)
    entry = EntryPages(
        rooms.accounts,
        frame=frame,
        is_signup_open=is_signup_open,
        has_provider=rooms.login is not None,
    )
    claims = ClaimPages(rooms.claiming, frame=frame)
    profile = ProfilePages(
        rooms.accounts,
        keys=rooms.keys,
        directory=rooms.directory,
        frame=frame,
        clock=rooms.clock,
    )
    routes: list[BaseRoute] = [*entry.routes(), *claims.routes(), *profile.routes(), *others]
    if rooms.login is not None:
        routes += ProviderPages(rooms.login, accounts=rooms.accounts, frame=frame).routes()
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    app.state.public_host = urlsplit(public_url).netloc.lower()
    app.add_middleware(RequestEdge)
    faults = _Faults(frame.renderer)
    app.add_exception_handler(LlmgwError, faults.ours)
    app.add_exception_handler(HTTPException, faults.of_framework)
    return app


class _Faults:
    """Pages that say what went wrong."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    async def ours(self, request: Request, error: Exception) -> Response:  # noqa: ARG002 - any
        """One of ours, by its kind; who is not signed in is sent to where that is done."""
        found = cast("LlmgwError", error)
        if isinstance(found, NoSession):
            return RedirectResponse(entry_pages.LOGIN, status_code=HTTPStatus.SEE_OTHER)
        response = self._page(problems.status_of(found), told_errors.told(found))
        if found.retryable:
            response.headers["retry-after"] = str(problems.RETRY_AFTER_S)
        return response

    async def of_framework(self, request: Request, error: Exception) -> Response:  # noqa: ARG002
        """No such page, or not by this method."""
        raised = cast("HTTPException", error)
        response = self._page(HTTPStatus(raised.status_code), raised.detail)
        response.headers.update(raised.headers or {})
        return response

    def _page(self, status: HTTPStatus, text: str) -> Response:
        return self._renderer.page("notice", status=status, title=status.phrase, text=text)
