"""The way to the provider of logins and back."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llmgw.accounts.oidc import OidcLogin
from llmgw.accounts.signing_in import SigningIn
from llmgw.errors import LlmgwError, LoginRefused
from llmgw.kit import logs
from llmgw.web import cookies, entry_pages, visitors
from llmgw.web.frames import Frame

BEGIN = "/login/oidc"
BACK = "/login/oidc/callback"

_LONGEST = 4096

_log = logs.get(__name__)


class ProviderPages:
    """Login elsewhere, as browsers see it."""

    def __init__(self, login: OidcLogin, *, accounts: SigningIn, frame: Frame) -> None:
        """The provider sends browsers back to the frame's public address."""
        self._login = login
        self._accounts = accounts
        self._jar = frame.jar
        self._back = frame.addressing.public_url.rstrip("/") + BACK

    def routes(self) -> list[Route]:
        """What they are reached by."""
        return [
            Route(BEGIN, self.leave, methods=["GET"]),
            Route(BACK, self.come_back, methods=["GET"]),
        ]

    async def leave(self, request: Request) -> Response:  # noqa: ARG002 - the same for all
        """Send a browser to the provider."""
        departure = await self._login.begin(redirect_uri=self._back)
        response = RedirectResponse(departure.url, status_code=HTTPStatus.SEE_OTHER)
        self._jar.depart(response, departure.cookie)
        return response

    async def come_back(self, request: Request) -> Response:
        """Open a session for who came back from there."""
        asked = request.query_params
        state, code = asked.get("state", ""), asked.get("code", "")
        try:
            if not code or len(code) > _LONGEST or len(state) > _LONGEST:
                raise LoginRefused("the provider of logins let nobody in; begin again")
            user = await self._login.finish(
                state=state, code=code, cookie=self._jar.read(request, cookies.DEPARTURE)
            )
            opened = await self._accounts.admit(user)
        except LlmgwError as error:
            _log.info(
                "login_refused",
                code=error.code,
                said=asked.get("error", "")[:64],
                peer=visitors.peer(request),
            )
            raise
        response = RedirectResponse(entry_pages.HOME, status_code=HTTPStatus.SEE_OTHER)
        self._jar.come_back(response)
        self._jar.begin_session(response, opened)
        return response
