"""People and sessions in memory, for what asks the store for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmgw.domain import people
from llmgw.domain.people import Session, User, UserState
from llmgw.domain.stored import AuditEntry
from llmgw.errors import Conflict, EmailTaken, Invalid, Unknown


class FakePeople:
    """Fits ``accounts.ports.People``."""

    def __init__(self, *, projects: Sequence[str] = ("p1", "p2")) -> None:
        self.users: dict[str, User] = {}
        self.entries: list[AuditEntry] = []
        self.sessions = FakeSessions(self)
        self._projects = frozenset(projects)

    async def add(self, user: User, *, entry: AuditEntry | None = None) -> None:
        if any(one.email == user.email for one in self.users.values()):
            raise EmailTaken(f"{user.email} has an account already")
        same = (user.issuer, user.subject)
        if user.issuer and any((u.issuer, u.subject) == same for u in self.users.values()):
            raise Conflict("somebody signs in elsewhere by this name already")
        self.users[user.user_id] = user
        self._note(entry)

    async def find(self, user_id: str) -> User:
        if user_id not in self.users:
            raise Unknown(f"no person {user_id} is known")
        return self.users[user_id]

    async def by_email(self, email: str) -> User | None:
        return next((one for one in self.users.values() if one.email == email), None)

    async def by_subject(self, *, issuer: str, subject: str) -> User | None:
        found = (u for u in self.users.values() if (u.issuer, u.subject) == (issuer, subject))
        return next(found, None)

    async def all(self, *, state: UserState | None = None) -> Sequence[User]:
        found = sorted(self.users.values(), key=lambda user: user.email)
        return [user for user in found if state in {None, user.state}]

    async def approve(
        self, user_id: str, *, project_id: str, by: str, at: float, entry: AuditEntry | None = None
    ) -> User:
        self._check_project(project_id)
        before = await self.find(user_id)
        if before.state is not UserState.PENDING:
            raise Conflict(f"{user_id} is {before.state}, so it cannot be approved")
        return self._changed(
            before,
            entry,
            state=UserState.ACTIVE,
            project_id=project_id,
            approved_by=by,
            approved_at=at,
        )

    async def set_state(
        self, user_id: str, state: UserState, *, entry: AuditEntry | None = None
    ) -> User:
        before = await self.find(user_id)
        people.check_step(before.state, state, who=user_id)
        if state is UserState.SUSPENDED:
            await self.sessions.remove_all(user_id)
        return self._changed(before, entry, state=state)

    async def set_admin(
        self, user_id: str, *, is_admin: bool, entry: AuditEntry | None = None
    ) -> User:
        return self._changed(await self.find(user_id), entry, is_admin=is_admin)

    async def set_password(
        self, user_id: str, password_hash: str, *, entry: AuditEntry | None = None
    ) -> User:
        before = await self.find(user_id)
        await self.sessions.remove_all(user_id)
        return self._changed(before, entry, password_hash=password_hash)

    async def set_project(
        self, user_id: str, *, project_id: str, entry: AuditEntry | None = None
    ) -> User:
        self._check_project(project_id)
        return self._changed(await self.find(user_id), entry, project_id=project_id)

    async def touch_login(self, user_id: str, *, at: float) -> None:
        self._changed(await self.find(user_id), None, last_login_at=at)

    def _check_project(self, project_id: str) -> None:
        if not project_id:
            raise Invalid("a person needs a project, or else there is nowhere to put its keys")
        if project_id not in self._projects:
            raise Unknown(f"no project {project_id} is known")

    def _changed(self, before: User, entry: AuditEntry | None, **changes: object) -> User:
        after = self.users[before.user_id] = replace(before, **changes)
        self._note(entry)
        return after

    def _note(self, entry: AuditEntry | None) -> None:
        if entry is not None:
            self.entries.append(entry)


class FakeSessions:
    """Fits ``accounts.ports.Sessions``."""

    def __init__(self, users: FakePeople) -> None:
        self.open: dict[str, Session] = {}
        self._people = users

    async def add(self, session: Session) -> None:
        self.open[session.token_hash] = session

    async def find(self, token_hash: str, *, now: float) -> tuple[Session, User] | None:
        session = self.open.get(token_hash)
        if session is None or session.expires_at <= now:
            return None
        user = self._people.users[session.user_id]
        return (session, user) if user.state is UserState.ACTIVE else None

    async def touch(self, token_hash: str, *, at: float) -> None:
        self.open[token_hash] = replace(self.open[token_hash], last_seen_at=at)

    async def remove(self, token_hash: str) -> None:
        self.open.pop(token_hash, None)

    async def remove_all(self, user_id: str) -> None:
        self.open = {k: one for k, one in self.open.items() if one.user_id != user_id}

    async def prune(self, *, now: float) -> int:
        old = [k for k, one in self.open.items() if one.expires_at <= now]
        for token_hash in old:
            del self.open[token_hash]
        return len(old)
