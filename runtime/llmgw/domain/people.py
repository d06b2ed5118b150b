"""People as the store keeps them, their sessions, and what of both is a rule.

Machines are known by keys (``domain.principals``), people by a password or by a login elsewhere.
Times are seconds since 1970.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw.errors import Conflict, NotAnEmail, WeakPassword

PASSWORD_CHARACTERS = 12
"""The only rule for a password: at least so many code points."""

LONGEST_PASSWORD = 1024
"""Longer ones would only cost us time."""

LONGEST_NAME = 200
"""Of what a person is called; the rest is cut off."""

_LONGEST_EMAIL = 254
_EMAIL = re.compile(r'[^@\s<>"\x00-\x1f\x7f]+@[^@\s<>"\x00-\x1f\x7f]*\.[^@\s<>"\x00-\x1f\x7f]*')


class UserState(enum.StrEnum):
    """What a person may do: nothing, use what it has, nothing any more."""

    PENDING = "pending"
    ACTIVE = "active"
    SUSPENDED = "suspended"


_STEPS: Mapping[UserState, frozenset[UserState]] = {
    UserState.PENDING: frozenset({UserState.ACTIVE, UserState.SUSPENDED}),
    UserState.ACTIVE: frozenset({UserState.SUSPENDED}),
    UserState.SUSPENDED: frozenset({UserState.ACTIVE}),
}


@dataclass(frozen=True, slots=True)
class User:
    """One person."""

    user_id: str
    email: str
    """Normalised; no two people have the same."""
    name: str
    state: UserState
    created_at: float
    password_hash: str = field(default="", repr=False)
    """Empty where the person signs in elsewhere only."""
    project_id: str = ""
    """Where its keys and sessions belong; empty until it is approved."""
    is_admin: bool = False
    last_login_at: float | None = None
    approved_by: str = ""
    approved_at: float | None = None
    issuer: str = ""
    """Who vouches for it, where it signs in elsewhere (OIDC)."""
    subject: str = ""
    """Its name there; never changes, unlike its address."""


@dataclass(frozen=True, slots=True)
class Session:
    """One browser that is signed in; both secrets are kept as their SHA-256."""

    token_hash: str
    user_id: str
    csrf_hash: str
    created_at: float
    expires_at: float
    last_seen_at: float


def digest(secret: str) -> str:
    """What is kept of a random secret; too simple for a password."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def normalise_email(text: str) -> str:
    """One spelling of an address; ``NotAnEmail`` where it cannot be one."""
    email = text.strip().lower()
    name, _, domain = email.partition("@")
    is_one = name and not domain.endswith("@") and email.isprintable() and _EMAIL.fullmatch(email)
    if not is_one or len(email) > _LONGEST_EMAIL:
        raise NotAnEmail("that is not an email address; one looks like name@example.org")
    return email


def check_step(before: UserState, after: UserState, *, who: str) -> None:
    """``Conflict`` where a person in one state cannot be put into the other."""
    if after not in _STEPS[before]:
        raise Conflict(f"{who} is {before}, so it cannot become {after}")


def check_password(text: str) -> None:
    """``WeakPassword`` where a new password is too short, or absurdly long."""
    if len(text) < PASSWORD_CHARACTERS:
        raise WeakPassword(f"a password has at least {PASSWORD_CHARACTERS} characters")
    if len(text) > LONGEST_PASSWORD:
        raise WeakPassword(f"a password has at most {LONGEST_PASSWORD} characters")
