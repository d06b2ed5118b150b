"""People sign up, sign in, stay signed in, change their password and leave.

The pages ask it. It tells nobody whether an address has an account: what is unknown and what is
wrong take the same time and get the same answer.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from dataclasses import dataclass, field

from llmgw.accounts.passwords import Passwords
from llmgw.accounts.ports import People, Sessions
from llmgw.accounts.throttling import Throttle
from llmgw.domain import people
from llmgw.domain.people import Session, User, UserState
from llmgw.errors import (
    BadCredentials,
    EmailTaken,
    Exhausted,
    HashUnreadable,
    LlmgwError,
    NoSession,
    NotApproved,
    SamePassword,
    Suspended,
)
from llmgw.kit import logs
from llmgw.kit.clock import Clock

MOST_WAITING = 1000
"""Accounts that nobody has approved: anybody can ask for one."""

_TOKEN_BYTES = 32
_TOUCH_AFTER_S = 60.0
"""How exact it is known when a session was used last: each write costs a transaction."""

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """Both secrets of a session that was just opened; nobody can be told them again."""

    token: str = field(repr=False)
    csrf: str = field(repr=False)
    ttl_s: float


@dataclass(frozen=True, slots=True)
class Policy:
    """How long a session lasts, and how often a password may be guessed."""

    session_ttl_s: float = 12 * 3600.0
    max_attempts: int = 10
    attempt_window_s: float = 900.0


class SigningIn:
    """What a person does about its own account."""

    def __init__(
        self,
        *,
        users: People,
        sessions: Sessions,
        passwords: Passwords,
        clock: Clock,
        policy: Policy | None = None,
    ) -> None:
        """Without ``policy`` the usual one holds."""
        self._users = users
        self._sessions = sessions
        self._passwords = passwords
        self._clock = clock
        policy = policy or Policy()
        self._ttl_s = policy.session_ttl_s
        self._throttle = Throttle(
            max_attempts=policy.max_attempts, window_s=policy.attempt_window_s, clock=clock
        )

    async def sign_up(self, *, email: str, name: str, password: str) -> None:
        """Make an account that waits for an administrator; ``NotAnEmail``, ``WeakPassword``.

        ``Exhausted`` where too many wait.
        Whoever asks cannot tell whether the address was taken.
        """
        user = await self.prepared(email=email, name=name, password=password)
        if len(await self._users.all(state=UserState.PENDING)) >= MOST_WAITING:
            raise Exhausted("too many accounts wait for approval; ask an administrator for one")
        try:
            await self._users.add(user)
        except EmailTaken:
            _log.info("sign_up_taken", email=user.email)
        else:
            _log.info("account_awaits_approval", user=user.user_id, email=user.email)

    async def prepared(self, *, email: str, name: str, password: str) -> User:
        """The same account, not kept yet."""
        normal = people.normalise_email(email)
        return User(
            user_id=new_user_id(),
            email=normal,
            name=name.strip()[: people.LONGEST_NAME] or normal,
            state=UserState.PENDING,
            created_at=self._clock.wall(),
            password_hash=await self.hashed(password),
        )

    async def hashed(self, password: str) -> str:
        """What is stored of a new password; ``WeakPassword``."""
        return await self._passwords.hashed(password)

    async def sign_in(self, *, email: str, password: str) -> Opened:
        """Open a session; ``BadCredentials``, ``NotApproved``, ``Suspended``, ``TooManyAttempts``.

        How an account stands is told only to who knows its password.
        """
        normal = email.strip().lower()
        bucket = people.digest(normal)  # short, whatever was sent
        self._throttle.attempt(bucket)
        user = await self._users.by_email(normal)
        if user is None or not user.password_hash:
            await self._passwords.take_as_long(password)
            raise _bad_credentials()
        if not await self._is_right(password, user):
            raise _bad_credentials()
        self._throttle.clear(bucket)
        return await self.admit(user)

    async def admit(self, user: User) -> Opened:
        """Open a session for a person who has just shown who it is; see ``sign_in``."""
        if user.state is UserState.PENDING:
            raise NotApproved("this account waits for an administrator to approve it")
        if user.state is not UserState.ACTIVE:
            raise Suspended("this account was suspended; ask an administrator")
        opened = await self.open_session(user.user_id)
        try:
            await self._users.touch_login(user.user_id, at=self._clock.wall())
        except LlmgwError as error:
            _log.warning("login_not_noted", user=user.user_id, error=str(error))
        return opened

    async def open_session(self, user_id: str) -> Opened:
        """Open a session for a person without looking at its password or state."""
        opened = Opened(token=_secret(), csrf=_secret(), ttl_s=self._ttl_s)
        now = self._clock.wall()
        await self._sessions.add(
            Session(
                token_hash=people.digest(opened.token),
                user_id=user_id,
                csrf_hash=people.digest(opened.csrf),
                created_at=now,
                expires_at=now + self._ttl_s,
                last_seen_at=now,
            )
        )
        return opened

    async def resolve(self, token: str) -> tuple[Session, User]:
        """Whose session this is; ``NoSession`` where it has ended, or its person is not active."""
        now = self._clock.wall()
        found = await self._sessions.find(people.digest(token), now=now) if token else None
        if found is None or found[1].state is not UserState.ACTIVE:
            raise NoSession("nobody is signed in here; sign in first")
        session, _ = found
        if now - session.last_seen_at >= _TOUCH_AFTER_S:
            try:
                await self._sessions.touch(session.token_hash, at=now)
            except LlmgwError as error:
                _log.debug("session_not_touched", user=session.user_id, error=str(error))
        return found

    async def sign_out(self, token: str) -> None:
        """End one session; nothing happens without one."""
        if token:
            await self._sessions.remove(people.digest(token))

    async def change_password(self, user_id: str, *, current: str, wanted: str) -> None:
        """Replace a person's password and end all its sessions, this browser's included.

        ``TooManyAttempts``, ``BadCredentials``, ``SamePassword``, ``WeakPassword``; nothing has
        changed then.
        """
        bucket = f"pw:{user_id}"
        self._throttle.attempt(bucket)
        user = await self._users.find(user_id)
        if not user.password_hash or not await self._is_right(current, user):
            raise BadCredentials("that is not the current password")
        self._throttle.clear(bucket)
        if hmac.compare_digest(current.encode(errors="replace"), wanted.encode(errors="replace")):
            raise SamePassword("the new password is the old one")
        await self._users.set_password(user_id, await self.hashed(wanted))
        _log.info("password_changed", user=user_id)

    async def _is_right(self, password: str, user: User) -> bool:
        try:
            return await self._passwords.is_right(password, user.password_hash)
        except HashUnreadable as error:
            _log.error("stored_password_unreadable", user=user.user_id, error=str(error))
            return False


def check_csrf(session: Session, submitted: str) -> bool:
    """Whether a form came from a page of this very session."""
    if not submitted or not session.csrf_hash:
        return False
    return hmac.compare_digest(people.digest(submitted), session.csrf_hash)


def new_user_id() -> str:
    """``usr-`` and 16 letters and digits."""
    return "usr-" + base64.b32encode(secrets.token_bytes(10)).decode().lower()


def _secret() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


def _bad_credentials() -> BadCredentials:
    return BadCredentials("no account has this address and this password")
