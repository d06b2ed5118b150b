"""What the people's side of accounts asks of the store; its repositories fit these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from llmgw.domain.people import Session, User, UserState
from llmgw.domain.stored import AuditEntry


class People(Protocol):
    """The people of one store; each change may bring its entry of the log of acts."""

    async def add(self, user: User, *, entry: AuditEntry | None = None) -> None:
        """Keep a new person; ``EmailTaken``, or ``Conflict`` where its name elsewhere is taken."""
        ...

    async def find(self, user_id: str) -> User:
        """One person; ``Unknown`` where there is none of this id."""
        ...

    async def by_email(self, email: str) -> User | None:
        """Whose this (normalised) address is."""
        ...

    async def by_subject(self, *, issuer: str, subject: str) -> User | None:
        """Who signs in elsewhere by this name."""
        ...

    async def all(self, *, state: UserState | None = None) -> Sequence[User]:
        """Everybody, in the order of their addresses."""
        ...

    async def approve(
        self, user_id: str, *, project_id: str, by: str, at: float, entry: AuditEntry | None = None
    ) -> User:
        """Make a pending person active in a project; ``Unknown`` person or project.

        ``Conflict`` where it is not pending, ``Invalid`` for an empty project.
        """
        ...

    async def set_state(
        self, user_id: str, state: UserState, *, entry: AuditEntry | None = None
    ) -> User:
        """Suspend or restore; suspending ends every session in the same transaction."""
        ...

    async def set_admin(
        self, user_id: str, *, is_admin: bool, entry: AuditEntry | None = None
    ) -> User:
        """Give or take the flag of an administrator; ``Unknown``."""
        ...

    async def set_password(
        self, user_id: str, password_hash: str, *, entry: AuditEntry | None = None
    ) -> User:
        """Replace the password and end every session in the same transaction; ``Unknown``."""
        ...

    async def set_project(
        self, user_id: str, *, project_id: str, entry: AuditEntry | None = None
    ) -> User:
        """Have an active person belong to another project; ``Unknown`` person or project."""
        ...

    async def touch_login(self, user_id: str, *, at: float) -> None:
        """It has just signed in."""
        ...


class Sessions(Protocol):
    """The browsers that are signed in."""

    async def add(self, session: Session) -> None:
        """Keep a new one."""
        ...

    async def find(self, token_hash: str, *, now: float) -> tuple[Session, User] | None:
        """A session that has not run out, of a person who is active; nothing otherwise."""
        ...

    async def touch(self, token_hash: str, *, at: float) -> None:
        """It was just used."""
        ...

    async def remove(self, token_hash: str) -> None:
        """End one; nothing happens where it has ended."""
        ...

    async def remove_all(self, user_id: str) -> None:
        """End all of one person."""
        ...

    async def prune(self, *, now: float) -> int:
        """Let go of those that have run out; how many those were."""
        ...
