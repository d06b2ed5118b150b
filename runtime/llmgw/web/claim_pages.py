"""What a link to a key shows: first a button, then the key, once."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llmgw.accounts.sealing import Claiming
from llmgw.web import forms
from llmgw.web.frames import Frame

CLAIM = "/claim/{token}"


class ClaimPages:
    """A link is its own proof, so nobody has to be signed in.

    Opening the page takes nothing: programs that look ahead at links must not use them up.
    """

    def __init__(self, claiming: Claiming, *, frame: Frame) -> None:
        """Links are ``claiming``'s."""
        self._claiming = claiming
        self._renderer = frame.renderer
        self._addressing = frame.addressing

    def routes(self) -> list[Route]:
        """What they are reached by."""
        return [
            Route(CLAIM, self.look, methods=["GET"]),
            Route(CLAIM, self.take, methods=["POST"]),
        ]

    async def look(self, request: Request) -> Response:
        """A button; 404 for a link that opens nothing (any more)."""
        claim = await self._claiming.look(request.path_params["token"])
        return self._renderer.page("claim", expires_at=claim.expires_at)

    async def take(self, request: Request) -> Response:
        """The key; 404 from then on."""
        forms.check_origin(request)
        opened = await self._claiming.open(request.path_params["token"])
        return self._renderer.page(
            "key",
            name="",
            secret=opened.secret,
            address=self._addressing.of(request),
        )
