"""The cookies of the pages: which there are, and with which marks they are set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from llmgw.accounts.oidc import LOGIN_WITHIN_S
from llmgw.accounts.signing_in import Opened

SESSION: Final = "llmgw_session"
CSRF: Final = "llmgw_csrf"
"""What forms of this browser carry as well; the server has but its hash, so it lies here."""

DEPARTURE: Final = "llmgw_departure"
"""What a browser that was sent to the provider of logins must bring back."""


@dataclass(frozen=True, slots=True)
class Cookies:
    """Sets and reads them; none is seen by scripts or sent along from pages of others."""

    is_secure: bool
    """Clients come by TLS: the browser then keeps them to this host and to TLS."""

    def read(self, request: Request, name: str) -> str:
        """What a browser brought; nothing where it brought none."""
        return request.cookies.get(self._named(name), "")

    def begin_session(self, response: Response, opened: Opened) -> None:
        """Have a browser stay signed in."""
        self._set(response, SESSION, opened.token, age_s=opened.ttl_s)
        self._set(response, CSRF, opened.csrf, age_s=opened.ttl_s)

    def end_session(self, response: Response) -> None:
        """Have it forget that."""
        self._set(response, SESSION, "", age_s=0)
        self._set(response, CSRF, "", age_s=0)

    def depart(self, response: Response, sealed: str) -> None:
        """Have it remember the login that it was sent away for."""
        self._set(response, DEPARTURE, sealed, age_s=LOGIN_WITHIN_S)

    def come_back(self, response: Response) -> None:
        """That login is over."""
        self._set(response, DEPARTURE, "", age_s=0)

    def _set(self, response: Response, name: str, value: str, *, age_s: float) -> None:
        response.set_cookie(
            self._named(name),
            value,
            max_age=int(age_s),
            path="/",
            secure=self.is_secure,
            httponly=True,
            samesite="lax",
        )

    def _named(self, name: str) -> str:
        return f"__Host-{name}" if self.is_secure else name
