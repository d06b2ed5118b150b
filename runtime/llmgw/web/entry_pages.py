"""The way in and out: asking for an account, signing in, signing out."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llmgw.accounts.signing_in import SigningIn
from llmgw.api import problems
from llmgw.errors import Kind, LlmgwError, Unknown
from llmgw.kit import logs
from llmgw.web import forms, told_errors, visitors
from llmgw.web.frames import Frame
from llmgw.web.visitors import Doorway

HOME: Final = "/profile"
LOGIN: Final = "/login"

_SHOWN_AGAIN: Final = frozenset(
    {Kind.INVALID, Kind.UNAUTHENTICATED, Kind.DENIED, Kind.EXHAUSTED, Kind.UNAVAILABLE}
)

_log = logs.get(__name__)


class EntryPages:
    """Pages for people who are not signed in, and the way out."""

    def __init__(
        self,
        accounts: SigningIn,
        *,
        frame: Frame,
        is_signup_open: bool,
        has_provider: bool,
    ) -> None:
        """``has_provider`` shows the way to login elsewhere."""
        self._accounts = accounts
        self._jar = frame.jar
        self._doorway = Doorway(accounts, jar=frame.jar)
        self._renderer = frame.renderer
        self._is_signup_open = is_signup_open
        self._has_provider = has_provider

    def routes(self) -> list[Route]:
        """What they are reached by."""
        return [
            Route(LOGIN, self.show_login, methods=["GET"]),
            Route(LOGIN, self.sign_in, methods=["POST"]),
            Route("/signup", self.show_signup, methods=["GET"]),
            Route("/signup", self.sign_up, methods=["POST"]),
            Route("/logout", self.sign_out, methods=["POST"]),
        ]

    async def show_login(self, request: Request) -> Response:  # noqa: ARG002 - the same for all
        """The form to sign in by."""
        return self._login()

    async def sign_in(self, request: Request) -> Response:
        """Open a session and go on to the profile."""
        fields = await forms.read(request)
        email = fields.get("email", "")
        try:
            opened = await self._accounts.sign_in(email=email, password=fields.get("password", ""))
        except LlmgwError as error:
            _log.info("sign_in_refused", code=error.code, peer=visitors.peer(request))
            return self._login(_shown(error), email=email, status=problems.status_of(error))
        await self._accounts.sign_out(self._doorway.token(request))  # the one before
        response = RedirectResponse(HOME, status_code=HTTPStatus.SEE_OTHER)
        self._jar.begin_session(response, opened)
        return response

    async def show_signup(self, request: Request) -> Response:  # noqa: ARG002 - the same for all
        """The form to ask for an account by; 404 where nobody may."""
        self._check_signup()
        return self._signup()

    async def sign_up(self, request: Request) -> Response:
        """Make an account that waits; says the same for an address that is taken."""
        self._check_signup()
        fields = await forms.read(request)
        email, name = fields.get("email", ""), fields.get("name", "")
        try:
            await self._accounts.sign_up(
                email=email, name=name, password=fields.get("password", "")
            )
        except LlmgwError as error:
            return self._signup(
                _shown(error), email=email, name=name, status=problems.status_of(error)
            )
        return self._renderer.page(
            "notice",
            title="Thank you",
            text="Your account waits for an administrator. Sign in once it is approved.",
        )

    async def sign_out(self, request: Request) -> Response:
        """End this browser's session."""
        await self._doorway.sender(request)
        await self._accounts.sign_out(self._doorway.token(request))
        response = RedirectResponse(LOGIN, status_code=HTTPStatus.SEE_OTHER)
        self._jar.end_session(response)
        return response

    def _check_signup(self) -> None:
        if not self._is_signup_open:
            raise Unknown("accounts are made by an administrator here; ask for one")

    def _login(
        self, problem: str = "", *, email: str = "", status: HTTPStatus = HTTPStatus.OK
    ) -> Response:
        return self._renderer.page(
            "login",
            status=status,
            problem=problem,
            email=email,
            is_signup_open=self._is_signup_open,
            has_provider=self._has_provider,
        )

    def _signup(
        self,
        problem: str = "",
        *,
        email: str = "",
        name: str = "",
        status: HTTPStatus = HTTPStatus.OK,
    ) -> Response:
        return self._renderer.page("signup", status=status, problem=problem, email=email, name=name)


def _shown(error: LlmgwError) -> str:
    """What a person is told beside the form; what is our own fault goes to the page of errors."""
    if error.kind not in _SHOWN_AGAIN:
        raise error
    return told_errors.told(error)
