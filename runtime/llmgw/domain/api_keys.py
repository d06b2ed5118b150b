"""Keys of programs as the store keeps them, and the links by which their owners fetch them; pure.

A key is known by the SHA-256 of its secret, which is right for random secrets and for them alone.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from llmgw.domain.principals import Level, Principal, compose
from llmgw.errors import Invalid

TOO_LATE_AT = 253_402_300_800.0
"""The year 10000, which no calendar of ours can show."""


class KeyState(enum.StrEnum):
    """Whether a key opens anything."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key; its secret is shown once and kept nowhere."""

    key_id: str
    key_hash: str = field(repr=False)
    prefix: str
    """The begin of its secret, by which its owner knows it again."""
    name: str
    project_id: str
    created_at: float
    created_by: str
    user_id: str | None = None
    """Whose it is; absent where it belongs to the project alone."""
    band: str | None = None
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None
    previous_hash: str | None = field(default=None, repr=False)
    """Of the secret before the last rotation."""
    previous_until: float | None = None
    """Until when that one is good too."""

    def state(self, now: float) -> KeyState:
        """What it opens now."""
        if self.revoked_at is not None:
            return KeyState.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return KeyState.EXPIRED
        return KeyState.ACTIVE


@dataclass(frozen=True, slots=True)
class KeyClaim:
    """A key that waits for its owner, sealed by the token that stands in the owner's link."""

    token_hash: str = field(repr=False)
    key_id: str
    sealed: bytes = field(repr=False)
    """Empty once it was opened."""
    created_at: float
    expires_at: float
    claimed_at: float | None = None

    def is_open(self, now: float) -> bool:
        """Whether its link still opens it."""
        return self.claimed_at is None and bool(self.sealed) and now < self.expires_at


@dataclass(frozen=True, slots=True)
class KeyChain:
    """A key with all that is above it, read in one transaction."""

    key: ApiKey
    team_id: str
    org_id: str
    levels: tuple[Level, ...]
    """All four, the organisation first."""
    is_previous: bool = False
    """Found by the secret before its last rotation."""


def principal(chain: KeyChain) -> Principal:
    """The owner of a key as the gateway meets it; whether it is good now is not looked at."""
    key = chain.key
    ends = [key.expires_at, key.previous_until if chain.is_previous else None]
    return Principal(
        key_id=key.key_id,
        name=key.name,
        project_id=key.project_id,
        team_id=chain.team_id,
        org_id=chain.org_id,
        user_id=key.user_id,
        band=key.band,
        models=compose(chain.levels).models,
        levels=chain.levels,
        expires_at=min((end for end in ends if end is not None), default=None),
    )


def check_end(ends_at: float, *, what: str) -> None:
    """``Invalid`` for an end so late that nobody could be shown it."""
    if not ends_at < TOO_LATE_AT:
        raise Invalid(f"{what} would end after the year 9999; give an earlier time")
