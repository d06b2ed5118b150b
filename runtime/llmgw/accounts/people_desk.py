"""What administrators do about people; each act is told to the log of acts, refused ones too.

Commands and the admin API ask it. Some of it (promoting, resetting a password) is for who may open
the store itself, and no page offers it.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from llmgw.accounts.noting import Telling
from llmgw.accounts.ports import People
from llmgw.accounts.signing_in import SigningIn
from llmgw.domain.actors import Actor
from llmgw.domain.people import User, UserState
from llmgw.kit.clock import Clock

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""None of them looks like another."""


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Somebody for whom an account is to be made; without ``password`` one is made up."""

    email: str
    name: str
    project_id: str
    is_admin: bool = False
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Issued:
    """A person, and the password that was made up for it: shown once."""

    user: User
    password: str | None = field(default=None, repr=False)


class PeopleDesk:
    """The people of one store."""

    def __init__(
        self, users: People, *, accounts: SigningIn, telling: Telling, clock: Clock
    ) -> None:
        """Accounts are made as ``accounts`` makes them."""
        self._users = users
        self._accounts = accounts
        self._telling = telling
        self._clock = clock

    async def all(self, *, state: UserState | None = None) -> Sequence[User]:
        """Everybody, or those in one state, in the order of their addresses."""
        return await self._users.all(state=state)

    async def find(self, reference: str) -> User:
        """By id or address; ``Unknown``."""
        found = await self._users.by_email(reference.strip().lower())
        return found or await self._users.find(reference)

    async def create(self, wanted: Newcomer, *, actor: Actor) -> Issued:
        """Make an active account; ``NotAnEmail``, ``WeakPassword``, ``EmailTaken``, ``Unknown``."""
        told = {"project_id": wanted.project_id, "is_admin": wanted.is_admin}
        async with self._telling.of(actor, "user.create", target=wanted.email, after=told) as entry:
            given = wanted.password
            password = given if given is not None else new_password()
            waiting = await self._accounts.prepared(
                email=wanted.email, name=wanted.name, password=password
            )
            user = replace(
                waiting,
                state=UserState.ACTIVE,
                project_id=wanted.project_id,
                is_admin=wanted.is_admin,
                approved_by=actor.name,
                approved_at=waiting.created_at,
            )
            await self._users.add(user, entry=entry)
        return Issued(user, password=password if given is None else None)

    async def approve(self, reference: str, *, project_id: str, actor: Actor) -> User:
        """Let somebody in who waits; ``Unknown``, ``Conflict``, ``Invalid`` without a project."""
        told = {"project_id": project_id}
        async with self._telling.of(actor, "user.approve", target=reference, after=told) as entry:
            user = await self.find(reference)
            return await self._users.approve(
                user.user_id,
                project_id=project_id,
                by=actor.name,
                at=self._clock.wall(),
                entry=entry,
            )

    async def suspend(self, reference: str, *, actor: Actor) -> User:
        """Shut somebody out and end its sessions; its keys work on until they are revoked."""
        return await self._set_state(reference, UserState.SUSPENDED, "user.suspend", actor=actor)

    async def restore(self, reference: str, *, actor: Actor) -> User:
        """Let somebody in again; no session comes back."""
        return await self._set_state(reference, UserState.ACTIVE, "user.restore", actor=actor)

    async def set_admin(self, reference: str, *, is_admin: bool, actor: Actor) -> User:
        """Make somebody an administrator, or no longer one."""
        action = "user.promote" if is_admin else "user.demote"
        async with self._telling.of(actor, action, target=reference) as entry:
            user = await self.find(reference)
            return await self._users.set_admin(user.user_id, is_admin=is_admin, entry=entry)

    async def reset_password(
        self, reference: str, *, actor: Actor, password: str | None = None
    ) -> Issued:
        """Give somebody another password and end its sessions; its keys work on."""
        async with self._telling.of(actor, "user.reset_password", target=reference) as entry:
            user = await self.find(reference)
            made = new_password() if password is None else password
            hashed = await self._accounts.hashed(made)
            changed = await self._users.set_password(user.user_id, hashed, entry=entry)
        return Issued(changed, password=made if password is None else None)

    async def _set_state(
        self, reference: str, state: UserState, action: str, *, actor: Actor
    ) -> User:
        async with self._telling.of(actor, action, target=reference) as entry:
            user = await self.find(reference)
            return await self._users.set_state(user.user_id, state, entry=entry)


def new_password() -> str:
    """One that nobody guesses and everybody can type: five groups of four."""
    groups = ("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(5))
    return "-".join(groups)
