"""Links by which a person fetches a key that somebody else made for it.

The key lies in the store sealed by a token that stands in the link alone, so a leaked store opens
none. Looking at a link opens nothing; it opens once.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from llmgw.accounts.key_ports import Claims
from llmgw.domain import people
from llmgw.domain.api_keys import KeyClaim
from llmgw.errors import Internal, Unknown
from llmgw.kit.clock import Clock

CLAIM_S = 72 * 3600.0
"""How long a link opens its key unless something else is asked for."""

_TOKEN_BYTES = 32
_NONCE_BYTES = 12
_PURPOSE = b"llmgw key claim 1"
"""So that the token's hash, which the store has, tells nothing of what seals."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A link to give away, and what the store keeps of it."""

    token: str = field(repr=False)
    claim: KeyClaim


@dataclass(frozen=True, slots=True)
class Opened:
    """A key that its owner is shown, once."""

    key_id: str
    secret: str = field(repr=False)


def seal(secret: str, *, key_id: str, now: float, ttl_s: float = CLAIM_S) -> Sealed:
    """Seal a key's secret with a new token."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    nonce = os.urandom(_NONCE_BYTES)
    hidden = AESGCM(_sealing_key(token)).encrypt(nonce, secret.encode(), key_id.encode())
    return Sealed(
        token,
        KeyClaim(
            token_hash=people.digest(token),
            key_id=key_id,
            sealed=nonce + hidden,
            created_at=now,
            expires_at=now + ttl_s,
        ),
    )


def unseal(claim: KeyClaim, token: str) -> str:
    """What was sealed; ``Internal`` where the store holds something else by now."""
    nonce, hidden = claim.sealed[:_NONCE_BYTES], claim.sealed[_NONCE_BYTES:]
    try:
        return AESGCM(_sealing_key(token)).decrypt(nonce, hidden, claim.key_id.encode()).decode()
    except (InvalidTag, ValueError):
        raise Internal(f"what waits for the owner of {claim.key_id} was damaged") from None


class Claiming:
    """What the page behind a link does."""

    def __init__(self, claims: Claims, *, clock: Clock) -> None:
        """Links of one store."""
        self._claims = claims
        self._clock = clock

    async def look(self, token: str) -> KeyClaim:
        """What a link is for, without opening it; ``Unknown`` for a dead one."""
        claim = await self._claims.find(people.digest(token))
        if claim is None or not claim.is_open(self._clock.wall()):
            raise _dead()
        return claim

    async def open(self, token: str) -> Opened:
        """The key, once; ``Unknown`` for a link that was opened, ran out, or never was."""
        claim = await self._claims.open(people.digest(token), at=self._clock.wall())
        if claim is None:
            raise _dead()
        return Opened(claim.key_id, secret=unseal(claim, token))


def _dead() -> Unknown:
    return Unknown("this link opens nothing: it was used, or its time is over; ask for another one")


def _sealing_key(token: str) -> bytes:
    derive = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=_PURPOSE)
    return derive.derive(token.encode())
