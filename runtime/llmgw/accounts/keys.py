"""Makes keys for programs, gives them other secrets, ends them.

A secret is shown by what makes it and kept nowhere: the store has its SHA-256, and its begin, by
which the owner knows it again.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llmgw.accounts import sealing
from llmgw.accounts.key_ports import Keys
from llmgw.accounts.noting import Telling
from llmgw.domain import api_keys, people
from llmgw.domain import limits as rules
from llmgw.domain.actors import Actor
from llmgw.domain.api_keys import ApiKey, KeyClaim, KeyState
from llmgw.domain.principals import Level
from llmgw.errors import Conflict, Invalid
from llmgw.kit.clock import Clock

SECRET_PREFIX = "sk-"  # noqa: S105 - what every key begins with, as OpenAI's do
OVERLAP_S = 24 * 3600.0
"""How long the secret before a rotation is good unless something else is asked for."""

_SECRET_BYTES = 32
_SHOWN_CHARACTERS = 11
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class KeyWish:
    """A key that somebody wants."""

    name: str
    project_id: str
    user_id: str | None = None
    band: str | None = None
    expires_at: float | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Fields of its level."""
    claim_s: float | None = None
    """Make a link to it that opens for so long, instead of showing it."""


@dataclass(frozen=True, slots=True)
class MadeKey:
    """A key with what nobody can be told again: its secret, or the token of the link to it."""

    key: ApiKey
    secret: str = field(repr=False)
    claim: sealing.Sealed | None = None


class KeyMaking:
    """The life of keys, from an administrator's or an owner's word on."""

    def __init__(
        self,
        keys: Keys,
        *,
        clock: Clock,
        telling: Telling,
        bands: Collection[str] | None = None,
    ) -> None:
        """``bands`` are those that a key may have; absent: nobody here knows."""
        self._keys = keys
        self._clock = clock
        self._telling = telling
        self._bands = bands

    async def create(self, wish: KeyWish, *, actor: Actor) -> MadeKey:
        """Make a key; ``Invalid``, or ``Unknown`` project or person."""
        key_id = new_key_id()
        async with self._telling.of(actor, "key.create", target=key_id, after=_told(wish)) as entry:
            level = self._checked(wish, key_id)
            now = self._clock.wall()
            secret = new_secret()
            key = ApiKey(
                key_id=key_id,
                key_hash=people.digest(secret),
                prefix=secret[:_SHOWN_CHARACTERS],
                name=wish.name.strip(),
                project_id=wish.project_id,
                created_at=now,
                created_by=actor.name,
                user_id=wish.user_id,
                band=wish.band,
                expires_at=wish.expires_at,
            )
            sealed = _sealed(secret, key_id, wish.claim_s, now=now)
            limits = level if level.is_limiting else None
            await self._keys.add(key, claim=_claim(sealed), limits=limits, entry=entry)
        return MadeKey(key, secret=secret, claim=sealed)

    async def rotate(
        self,
        key_id: str,
        *,
        actor: Actor,
        overlap_s: float = OVERLAP_S,
        claim_s: float | None = None,
    ) -> MadeKey:
        """Give a key another secret; the one before is good for ``overlap_s`` more.

        ``Conflict`` for a key that opens nothing; a secret that was already on its way out ends.
        """
        async with self._telling.of(
            actor, "key.rotate", target=key_id, after={"overlap_s": overlap_s}
        ) as entry:
            before = await self._keys.find(key_id)
            now = self._clock.wall()
            if (state := before.state(now)) is not KeyState.ACTIVE:
                raise Conflict(f"the key {key_id} is {state}, so it gets no other secret")
            api_keys.check_end(now + overlap_s, what="the secret before")
            secret = new_secret()
            after = replace(
                before,
                key_hash=people.digest(secret),
                prefix=secret[:_SHOWN_CHARACTERS],
                previous_hash=before.key_hash,
                previous_until=now + overlap_s,
            )
            sealed = _sealed(secret, key_id, claim_s, now=now)
            key = await self._keys.rotate(before, after, claim=_claim(sealed), entry=entry)
        return MadeKey(key, secret=secret, claim=sealed)

    async def revoke(self, key_id: str, *, actor: Actor) -> ApiKey:
        """Let a key open nothing any more; once is enough, twice is no mistake."""
        async with self._telling.of(actor, "key.revoke", target=key_id) as entry:
            return await self._keys.revoke(key_id, at=self._clock.wall(), entry=entry)

    async def move(self, key_id: str, *, project_id: str, actor: Actor) -> ApiKey:
        """Put a key into another project, below the limits there."""
        after = {"project": project_id}
        async with self._telling.of(actor, "key.move", target=key_id, after=after) as entry:
            return await self._keys.move(key_id, project_id=project_id, entry=entry)

    async def all(self, *, project_id: str = "", user_id: str = "") -> Sequence[ApiKey]:
        """Keys of a project or a person, or all."""
        return await self._keys.all(project_id=project_id, user_id=user_id)

    async def find(self, reference: str) -> ApiKey:
        """A key by its id, or by its begin where one key alone has it; ``Unknown``, ``Invalid``."""
        if not reference:
            raise Invalid("name a key by its id or its begin; see 'llmgw keys list'")
        found = await self._keys.all(prefix=reference)
        if len(found) > 1:
            named = ", ".join(key.key_id for key in found)
            raise Invalid(f"several keys begin with {reference}: say which of {named}")
        return found[0] if found else await self._keys.find(reference)

    def state_of(self, key: ApiKey) -> KeyState:
        """What a key opens now."""
        return key.state(self._clock.wall())

    def _checked(self, wish: KeyWish, key_id: str) -> Level:
        name = wish.name.strip()
        if not name or not name.isprintable() or len(name) > _LONGEST_NAME:
            raise Invalid(
                f"a key has a name of one line and at most {_LONGEST_NAME} characters, "
                "by which people know what it is for"
            )
        if wish.expires_at is not None:
            api_keys.check_end(wish.expires_at, what="the key")
            if wish.expires_at <= self._clock.wall():
                raise Invalid("the key would have run out already; give a time to come")
        if wish.band is not None and self._bands is not None and wish.band not in self._bands:
            known = ", ".join(self._bands)
            raise Invalid(f"there is no band {wish.band!r}: give one of {known}")
        level = Level("key", key_id, **wish.limits)
        rules.check(level)
        return level


def new_secret() -> str:
    """A key that nobody guesses."""
    return SECRET_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def new_key_id() -> str:
    """An id that tells nothing."""
    return "key-" + base64.b32encode(secrets.token_bytes(10)).decode().lower()


def _sealed(
    secret: str, key_id: str, claim_s: float | None, *, now: float
) -> sealing.Sealed | None:
    if claim_s is None:
        return None
    api_keys.check_end(now + claim_s, what="the link")
    return sealing.seal(secret, key_id=key_id, now=now, ttl_s=claim_s)


def _claim(sealed: sealing.Sealed | None) -> KeyClaim | None:
    return sealed.claim if sealed else None


def _told(wish: KeyWish) -> Mapping[str, object]:
    names = ("name", "project_id", "user_id", "band", "expires_at")
    told = {name: value for name in names if (value := getattr(wish, name)) is not None}
    limits = {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name, value in wish.limits.items()
    }
    return {**told, **limits, **({"is_claimed_by_link": True} if wish.claim_s else {})}
