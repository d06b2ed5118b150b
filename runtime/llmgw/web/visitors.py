"""Who looks at a page: the person of the session that a browser brings, and how it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.requests import Request

from llmgw.accounts import signing_in
from llmgw.accounts.signing_in import SigningIn
from llmgw.domain.actors import Actor
from llmgw.domain.people import Session, User
from llmgw.errors import Denied
from llmgw.web import cookies, forms
from llmgw.web.cookies import Cookies

PEER_HEADER = "x-llmgw-peer"
"""The client's address; set by the gateway, which lets no client's own through."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person who is signed in."""

    user: User
    session: Session
    csrf: str = field(repr=False)
    """What the forms of this browser must carry."""
    request_id: str = ""

    @property
    def actor(self) -> Actor:
        """Who it is in the log of acts."""
        return Actor(self.user.email, origin="page", request_id=self.request_id)


class Doorway:
    """Finds out who looks."""

    def __init__(self, accounts: SigningIn, *, jar: Cookies) -> None:
        """Sessions are ``accounts``'s, and lie in the cookies of ``jar``."""
        self._accounts = accounts
        self._jar = jar

    async def visitor(self, request: Request) -> Visitor:
        """Who is signed in; ``NoSession``."""
        session, user = await self._accounts.resolve(self.token(request))
        csrf = self._jar.read(request, cookies.CSRF)
        return Visitor(user, session, csrf, request_id=request_id(request))

    async def sender(self, request: Request) -> tuple[Visitor, Mapping[str, str]]:
        """Who sent a form, and its fields; ``NoSession``, or ``Denied`` for a form of others."""
        visitor = await self.visitor(request)
        fields = await forms.read(request)
        if not signing_in.check_csrf(visitor.session, fields.get("csrf", "")):
            raise Denied("this form is not of this session; open the page again")
        return visitor, fields

    def token(self, request: Request) -> str:
        """The secret of the session that a browser brings."""
        return self._jar.read(request, cookies.SESSION)


def request_id(request: Request) -> str:
    """The id under which the gateway and this request's log lines are found."""
    found: str = request.state.request_id
    return found


def peer(request: Request) -> str:
    """From where it came, as the gateway says."""
    return request.headers.get(PEER_HEADER, "")
