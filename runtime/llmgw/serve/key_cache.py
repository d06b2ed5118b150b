"""Whose keys a gateway process has seen lately, so that a request seldom waits for the answer.

Fits ``gateway.ports.KeyLookup``.  An entry is asked after anew before it is too old, in the
background; while nobody can tell, one that was good stays good for a while, and a key that was
never seen is told to come back: only who knows that a key is nobody's says so.
Keys are kept as hashes; a key itself for a quarter of a second, while its requests come one after
the other, since hashing costs a third of all that identifying one does.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from llmgw.domain.principals import Principal
from llmgw.errors import KeysUnavailable, KeyUnknown
from llmgw.kit import logs
from llmgw.kit.clock import Clock
from llmgw.kit.tasks import Tasks
from llmgw.serve.messages import KeyAnswer

MOST_KEYS: Final = 10_000
_MOST_HOT: Final = 256
_HOT_S: Final = 0.25
_MOST_QUESTIONS: Final = 256
_ASK_S: Final = 3.0
_ASK_AGAIN_S: Final = 1.0
"""So long a request whose key was good waits for news of it."""

_AWAY_S: Final = 5.0
"""After nobody could tell, so long nobody is asked about keys that were good."""

_log = logs.get(__name__)

Ask = Callable[[str], Awaitable[KeyAnswer]]
"""Asks whoever opens the store; ``KeysUnavailable`` where nobody answers."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long answers hold, in seconds: good ones, bad ones, and good ones without news."""

    good_s: float
    bad_s: float
    stale_s: float


class _Entry:
    __slots__ = ("heard_at", "principal", "refresh_at", "until")

    def __init__(self, principal: Principal, *, now: float, until: float) -> None:
        self.principal = principal
        self.heard_at = now
        self.until = until
        self.refresh_at = now + (until - now) / 2


class KeyCache:
    """See the module; one a process that carries requests."""

    def __init__(
        self,
        ask: Ask,
        *,
        lifetimes: Lifetimes,
        learn: Callable[[dict[str, int]], None],
        clock: Clock,
        most: int = MOST_KEYS,
    ) -> None:
        """``learn`` is told the slots of counters before a request of their key goes on."""
        self._ask_elsewhere = ask
        self._lifetimes = lifetimes
        self._learn = learn
        self._clock = clock
        self._most = most
        self._entries: dict[bytes, _Entry] = {}
        self._hot: dict[str, Principal] = {}
        self._bad: dict[bytes, float] = {}  # apart, so that guesses drive out no good key
        self._questions: dict[bytes, asyncio.Task[None]] = {}
        self._tasks = Tasks(owner="keys")
        self._away_until = 0.0

    def known(self, token: str) -> Principal | None:
        """See ``gateway.ports.KeyLookup``."""
        hot = self._hot.get(token)
        if hot is not None:
            return hot
        digest = hashlib.sha256(token.encode()).digest()
        entry = self._entries.get(digest)
        if entry is None:
            return None
        now = self._clock.monotonic()
        if now >= entry.until:
            return None
        if now >= entry.refresh_at:
            entry.refresh_at = entry.until
            self._question(digest)
        if len(self._hot) < _MOST_HOT:
            self._hot[token] = entry.principal
        return entry.principal

    def cool(self) -> None:
        """Forget keys themselves; called each ``_HOT_S`` or so."""
        self._hot.clear()

    async def ask(self, token: str) -> Principal:
        """See ``gateway.ports.KeyLookup``."""
        digest = hashlib.sha256(token.encode()).digest()
        now = self._clock.monotonic()
        if now < self._bad.get(digest, 0.0):
            raise KeyUnknown("nobody has this key")
        was_good = digest in self._entries
        if now >= self._away_until or not was_good:
            await self._answered(digest, within_s=_ASK_AGAIN_S if was_good else _ASK_S)
        return self._judged(digest)

    async def close(self) -> None:
        """Ask no more."""
        await self._tasks.close()

    async def _answered(self, digest: bytes, *, within_s: float) -> None:
        question = self._question(digest)
        if question is not None:
            await asyncio.wait({question}, timeout=within_s)

    def _question(self, digest: bytes) -> asyncio.Task[None] | None:
        """The question for a key that is under way; none where there are too many."""
        question = self._questions.get(digest)
        if question is None and len(self._questions) < _MOST_QUESTIONS:
            question = self._tasks.spawn("question", self._put_question(digest))
            self._questions[digest] = question
        return question

    async def _put_question(self, digest: bytes) -> None:
        key_hash = digest.hex()
        try:
            async with asyncio.timeout(_ASK_S):
                answer = await self._ask_elsewhere(key_hash)
        except (KeysUnavailable, TimeoutError):
            answer = KeyAnswer(key_hash=key_hash, outcome="unavailable")
        finally:
            del self._questions[digest]
        self._take(digest, answer)

    def _take(self, digest: bytes, answer: KeyAnswer) -> None:
        now = self._clock.monotonic()
        if answer.outcome == "unavailable":
            if now >= self._away_until:
                _log.warning("keys_not_told", means="keys that were seen lately go on")
            self._away_until = now + _AWAY_S
            return
        self._away_until = 0.0
        self._hot.clear()
        self._entries.pop(digest, None)
        self._bad.pop(digest, None)
        principal = answer.principal
        if answer.outcome == "known" and principal is not None:
            self._learn(answer.slots)
            good_s = max(self._lifetimes.good_s - _HOT_S, _HOT_S)
            until = min(now + good_s, self._end_of(principal))
            self._entries[digest] = _Entry(principal, now=now, until=until)
            _bound(self._entries, self._most)
        else:
            self._bad[digest] = now + self._lifetimes.bad_s
            _bound(self._bad, self._most)

    def _judged(self, digest: bytes) -> Principal:
        """What is known of a key after it was asked for."""
        now, entry = self._clock.monotonic(), self._entries.get(digest)
        if entry is None and now < self._bad.get(digest, 0.0):
            raise KeyUnknown("nobody has this key")
        if entry is not None:
            if now >= (end_at := self._end_of(entry.principal)):
                raise KeyUnknown("the time of this key is over")
            if now < entry.heard_at + self._lifetimes.stale_s:
                if now >= entry.until:  # nobody can tell: ask again in a while
                    entry.until = entry.refresh_at = min(now + _AWAY_S, end_at)
                return entry.principal
        raise KeysUnavailable("whose this key is cannot be found out now", retry_after_s=_AWAY_S)

    def _end_of(self, principal: Principal) -> float:
        """When its time is over, by the monotonic clock."""
        if principal.expires_at is None:
            return float("inf")
        return self._clock.monotonic() + principal.expires_at - self._clock.wall()


def _bound(known: dict[bytes, Any], most: int) -> None:
    """Forget what was heard of longest ago."""
    if len(known) > most:
        del known[next(iter(known))]
