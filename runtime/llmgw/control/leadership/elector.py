"""Says whether this control plane leads.

Agents' service, reconciler and admin API each declare the port that they ask; this room fits them.
The lease lies on a store that all candidates share and that alone decides; what a leader believes
of itself ends by its own clock before the store would give the lease to another.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from llmgw.domain.stored import Lease
from llmgw.errors import DeadlinePassed, LlmgwError
from llmgw.kit import ids, logs
from llmgw.kit.clock import Clock
from llmgw.kit.tasks import Tasks

UNCHECKED_TERM = 0
"""The term of a leader whom nobody can depose: agents do not compare it."""

_NOT_YET = float("-inf")
_AFTER_ITS_END_S = 0.02
_SOONEST_S = 0.05
_RELEASE_S = 2.0

_log = logs.get(__name__)


class SoleLeader:
    """Leads always: without a store that is shared there is nobody to lead in its stead."""

    def is_leader(self) -> bool:
        """Always."""
        return True

    def is_lapsed(self) -> bool:
        """Never."""
        return False

    def term(self) -> int:
        """The term that is not checked."""
        return UNCHECKED_TERM

    def heard(self, term: int) -> None:
        """Nobody deposes it."""


class Leases(Protocol):
    """The lease, as the store keeps it."""

    async def take(
        self, *, owner: str, address: str, ttl_s: float, above_term: int
    ) -> Lease | None:
        """Take or renew it in one step, above a term; who holds it now, where that is known."""
        ...

    async def release(self, *, owner: str) -> None:
        """Let go of it, where it is ``owner``'s."""
        ...


class Standing(enum.StrEnum):
    """How this control plane stands to the lease."""

    LEADS = "leads"
    LAPSED = "lapsed"
    """It led, could not renew, and knows of nobody else: it changes nothing and keeps all."""
    STANDBY = "standby"
    """Another one leads, or nobody is known to."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a lease holds, and how often it is tried for."""

    ttl_s: float = 6.0
    every_s: float = 2.0


class Elector:
    """One candidate, from ``start`` to ``close``."""

    def __init__(self, leases: Leases, *, address: str, timing: Timing, clock: Clock) -> None:
        """``address`` is where others are sent while this one leads."""
        # Random a process: the next one on this machine must not take our lease for its own.
        self.owner = f"cp-{ids.token(8)}"
        self.address = address
        self._leases = leases
        self._timing = timing
        self._clock = clock
        self._tasks = Tasks(owner="leadership")
        self._woken = asyncio.Event()
        self._on_change: Callable[[Standing], None] = lambda _: None
        self._preparations: list[Callable[[], Awaitable[None]]] = []
        self._valid_until = _NOT_YET
        self._has_led = False
        self._term = UNCHECKED_TERM
        self._above = UNCHECKED_TERM
        self._other: Lease | None = None
        self._told = Standing.STANDBY
        self._complaint = ""

    def is_leader(self) -> bool:
        """Whether the lease is ours and has not run out by our own clock."""
        return self._clock.monotonic() < self._valid_until

    def is_lapsed(self) -> bool:
        """Whether it led, its lease has run out, and nobody else is known to lead."""
        return self.standing() is Standing.LAPSED

    def term(self) -> int:
        """The term that this one leads in, or led in last: never another one's."""
        return self._term

    def standing(self) -> Standing:
        """How it stands at this moment."""
        if self.is_leader():
            return Standing.LEADS
        return Standing.LAPSED if self._has_led else Standing.STANDBY

    def leader(self) -> Lease | None:
        """Who else leads, as the store said last."""
        return None if self._has_led else self._other

    def heard(self, term: int) -> None:
        """A node has seen this term: a higher one than ours means that we do not lead any more.

        The next term that we take is above it, also on a store that was lost or set back. A node
        that has seen the term that we lead in says nothing new.
        """
        if term == self._term and self._has_led:
            return
        self._above = max(self._above, term)
        if UNCHECKED_TERM < self._term < term and self.is_leader():
            _log.warning("leads_no_more", term=self._term, seen=term)
            self._valid_until = _NOT_YET
            self._tell()
            self._woken.set()

    def subscribe(self, on_change: Callable[[Standing], None]) -> None:
        """Be told of each change of standing; one listener, set before ``start``."""
        self._on_change = on_change

    def prepare(self, prepare: Callable[[], Awaitable[None]]) -> None:
        """Have something done before each term; set before ``start``.

        While it fails this one does not lead, and leaves the lease to others.
        """
        self._preparations.append(prepare)

    async def start(self) -> None:
        """Try once, so that a lone server leads before anybody asks, and go on trying."""
        await self._campaign()
        self._tasks.spawn("campaign", self._run())

    async def close(self) -> None:
        """Stop leading and let the next one have it at once."""
        await self._tasks.close()
        was_ours, self._valid_until, self._has_led = self._has_led, _NOT_YET, False
        self._tell()
        if not was_ours:
            return
        try:
            async with asyncio.timeout(_RELEASE_S):
                await self._leases.release(owner=self.owner)
        except (LlmgwError, TimeoutError) as error:
            _log.warning("lease_not_released", error=str(error), frees_in_s=self._timing.ttl_s)

    async def _run(self) -> None:
        while True:
            await self._rest()
            await self._campaign()

    async def _rest(self) -> None:
        """Until the next try is due; a lapse on the way is told."""
        until = self._clock.monotonic() + self._pause_s()
        while (left_s := until - self._clock.monotonic()) > 0 and not self._woken.is_set():
            lapses_in_s = self._valid_until - self._clock.monotonic()
            wait_s = min(left_s, lapses_in_s) if lapses_in_s > 0 else left_s
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._woken.wait()
            self._tell()
        self._woken.clear()

    def _pause_s(self) -> float:
        """A standby comes back when the leader's lease ends, if that is before its turn."""
        other = self.leader()
        if other is None or other.left_s <= 0:
            return self._timing.every_s
        return max(_SOONEST_S, min(self._timing.every_s, other.left_s + _AFTER_ITS_END_S))

    async def _campaign(self) -> None:
        asked_at = self._clock.monotonic()
        try:
            # Half of it, so that one answer which never comes does not cost the lease.
            async with asyncio.timeout(self._timing.ttl_s / 2):
                held = await self._leases.take(
                    owner=self.owner,
                    address=self.address,
                    ttl_s=self._timing.ttl_s,
                    above_term=self._above,
                )
                await self._prepared(held)
        except TimeoutError:
            self._complain(DeadlinePassed(f"no answer within {self._timing.ttl_s / 2:g} s"))
        except LlmgwError as error:
            self._complain(error)
        except Exception as fault:  # noqa: BLE001 - a candidate that gave up would never lead again
            _log.error("campaign_failed", error=repr(fault), exc=fault)
        else:
            self._complaint = ""
            self._note(held, asked_at=asked_at)
        self._tell()

    async def _prepared(self, held: Lease | None) -> None:
        """A new term begins with what is stored at its beginning, or it does not begin."""
        if held is None or held.owner != self.owner:
            return
        if self._has_led and held.term == self._term:
            return
        try:
            for prepare in self._preparations:
                await prepare()
        except BaseException:
            with suppress(LlmgwError, TimeoutError):
                async with asyncio.timeout(_RELEASE_S):
                    await self._leases.release(owner=self.owner)
            raise

    def _note(self, held: Lease | None, *, asked_at: float) -> None:
        if held is None:
            return
        if held.owner == self.owner:
            # From before it was asked: so it ends here no later than in the store.
            self._valid_until = asked_at + self._timing.ttl_s
            self._term, self._has_led, self._other = held.term, True, None
            return
        self._valid_until, self._has_led, self._other = _NOT_YET, False, held
        self._above = max(self._above, held.term)

    def _tell(self) -> None:
        standing = self.standing()
        if standing is self._told:
            return
        self._told = standing
        _log.info("leadership", standing=str(standing), term=self._term or None)
        self._on_change(standing)

    def _complain(self, error: LlmgwError) -> None:
        """A store that does not answer changes nothing; the same complaint is logged once."""
        if error.message != self._complaint:
            self._complaint = error.message
            _log.warning("lease_not_renewed", standing=str(self.standing()), reason=error.message)
