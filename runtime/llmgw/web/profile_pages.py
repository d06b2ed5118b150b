"""A person's own page: its keys, its password."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llmgw.accounts.directory import Directory
from llmgw.accounts.keys import KeyMaking, KeyWish
from llmgw.accounts.signing_in import SigningIn
from llmgw.api import problems
from llmgw.domain.api_keys import KeyState
from llmgw.errors import Exhausted, Invalid, Kind, LlmgwError, Unknown
from llmgw.kit.clock import Clock
from llmgw.web import entry_pages
from llmgw.web.frames import Frame
from llmgw.web.visitors import Doorway, Visitor

MOST_KEYS: Final = 50
"""Keys that open something, of one person."""

_DAY_S: Final = 86400.0
_LONGEST_DAYS: Final = 3660
_INNER: Final = frozenset({Kind.INTERNAL, Kind.UNKNOWN})


class ProfilePages:
    """For people who are signed in."""

    def __init__(
        self,
        accounts: SigningIn,
        *,
        keys: KeyMaking,
        directory: Directory,
        frame: Frame,
        clock: Clock,
    ) -> None:
        """Keys that are made here are of the person's own project."""
        self._accounts = accounts
        self._keys = keys
        self._directory = directory
        self._jar = frame.jar
        self._doorway = Doorway(accounts, jar=frame.jar)
        self._renderer = frame.renderer
        self._addressing = frame.addressing
        self._clock = clock

    def routes(self) -> list[Route]:
        """What they are reached by."""
        return [
            Route(entry_pages.HOME, self.show, methods=["GET"]),
            Route("/profile/keys", self.make_key, methods=["POST"]),
            Route("/profile/keys/{key_id}/revoke", self.revoke_key, methods=["POST"]),
            Route("/profile/password", self.change_password, methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        """Who one is, and what one has."""
        return await self._profile(await self._doorway.visitor(request))

    async def make_key(self, request: Request) -> Response:
        """Make a key and show it, once."""
        visitor, fields = await self._doorway.sender(request)
        user = visitor.user
        try:
            await self._check_room(user.user_id)
            wish = KeyWish(
                name=fields.get("name", ""),
                project_id=user.project_id,
                user_id=user.user_id,
                expires_at=self._expiry(fields),
            )
            made = await self._keys.create(wish, actor=visitor.actor)
        except LlmgwError as error:
            return await self._again(visitor, error)
        return self._renderer.page(
            "key",
            name=made.key.name,
            secret=made.secret,
            address=self._addressing.of(request),
        )

    async def revoke_key(self, request: Request) -> Response:
        """End one of one's own keys; 404 for those of others."""
        visitor, _ = await self._doorway.sender(request)
        key_id = request.path_params["key_id"]
        own = await self._keys.all(user_id=visitor.user.user_id)
        if not any(key.key_id == key_id for key in own):
            raise Unknown(f"you have no key {key_id}")
        await self._keys.revoke(key_id, actor=visitor.actor)
        return RedirectResponse(entry_pages.HOME, status_code=HTTPStatus.SEE_OTHER)

    async def change_password(self, request: Request) -> Response:
        """Replace one's password; every other browser is signed out, and this one in anew."""
        visitor, fields = await self._doorway.sender(request)
        user_id = visitor.user.user_id
        try:
            await self._accounts.change_password(
                user_id, current=fields.get("current", ""), wanted=fields.get("wanted", "")
            )
        except LlmgwError as error:
            return await self._again(visitor, error)
        response = RedirectResponse(entry_pages.HOME, status_code=HTTPStatus.SEE_OTHER)
        self._jar.begin_session(response, await self._accounts.open_session(user_id))
        return response

    async def _check_room(self, user_id: str) -> None:
        now = self._clock.wall()
        keys = await self._keys.all(user_id=user_id)
        if sum(key.state(now) is KeyState.ACTIVE for key in keys) >= MOST_KEYS:
            raise Exhausted(f"you have {MOST_KEYS} keys already; revoke one that you do not need")

    def _expiry(self, fields: Mapping[str, str]) -> float | None:
        days = fields.get("days", "").strip()
        if not days:
            return None
        if not (days.isascii() and days.isdecimal() and 0 < int(days) <= _LONGEST_DAYS):
            raise Invalid(f"a key is good for 1 to {_LONGEST_DAYS} days; leave it empty for ever")
        return self._clock.wall() + int(days) * _DAY_S

    async def _again(self, visitor: Visitor, error: LlmgwError) -> Response:
        """The page once more, with what is wrong; our own faults go to the page of errors."""
        if error.kind in _INNER:
            raise error
        return await self._profile(visitor, error.message, status=problems.status_of(error))

    async def _profile(
        self, visitor: Visitor, problem: str = "", *, status: HTTPStatus = HTTPStatus.OK
    ) -> Response:
        user, now = visitor.user, self._clock.wall()
        tree = await self._directory.tree()
        keys = await self._keys.all(user_id=user.user_id)
        return self._renderer.page(
            "profile",
            status=status,
            problem=problem,
            csrf=visitor.csrf,
            user=user,
            project=tree.path(tree.project(user.project_id)),
            keys=[(key, str(key.state(now))) for key in keys],
            has_password=bool(user.password_hash),
        )
