"""Tells the workers of a host whose a key is, and where its limits are counted.

Only who opens the store has one.  A store that is slow or away is told as such within a bound; a
counter gets its slot on the limits board, with what was spent before, before anybody hears of a key
that it limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from llmgw.accounting import rebuilding
from llmgw.accounting.gate import has_counter
from llmgw.accounting.host_limits import Spending
from llmgw.domain.principals import Principal
from llmgw.domain.usage_rows import UsageRow
from llmgw.errors import KeyUnknown, LlmgwError
from llmgw.kit import logs
from llmgw.kit.clock import Clock
from llmgw.kit.tasks import Tasks
from llmgw.serve.messages import KeyAnswer

_ANSWER_S = 2.5
"""Less than a worker waits."""

_STAMP_EVERY_S = 20.0
_FRESH_S = 1.0
_MOST_REMEMBERED = 100_000

_log = logs.get(__name__)


class Owners(Protocol):
    """Who owns keys; ``accounts.directory.Directory`` fits."""

    async def principal_of(self, key_hash: str) -> Principal:
        """The owner of a key by its hash; ``KeyUnknown``."""
        ...


class Stamps(Protocol):
    """Where it is kept when keys were used; ``store.keys_repo.KeysRepo`` fits."""

    async def touch(self, used_at: Mapping[str, float]) -> None:
        """When keys were used last, many at once."""
        ...


class Slots(Protocol):
    """The slots of counters; ``accounting.host_limits.HostLimits`` fits."""

    def slot_of(self, counter: str) -> int | None:
        """Where a counter is."""
        ...

    def allot(self, counter: str, spending: Spending, *, now: float) -> int | None:
        """A slot for a counter of which so much was spent."""
        ...


class Spendings(Protocol):
    """What was spent; ``accounting.rebuilding.spendings`` of a store fits."""

    async def __call__(self, *, now: float) -> Mapping[str, Spending]:
        """By counter."""
        ...


class KeyDesk:
    """See the module, from ``start`` to ``close``; ``slots`` is given before it is asked."""

    def __init__(
        self,
        owners: Owners,
        *,
        stamps: Stamps,
        spendings: Spendings,
        caught_up: Callable[[], Awaitable[object]],
        clock: Clock,
    ) -> None:
        """``caught_up`` returns when what earlier workers noted is in the store, or not soon."""
        self.slots: Slots | None = None
        self._owners = owners
        self._stamps = stamps
        self._ask_spendings = spendings
        self._caught_up = caught_up
        self._clock = clock
        self._is_caught_up = False
        self._spendings: Mapping[str, Spending] = {}
        self._asked_at = float("-inf")
        self._asking = asyncio.Lock()
        self._used_at: dict[str, float] = {}
        self._levels: dict[str, Sequence[str]] = {}
        self._tasks = Tasks(owner="key-desk")

    def start(self) -> None:
        """Begin to keep when keys were used."""
        self._tasks.spawn("stamps", self._stamp_on())

    async def close(self) -> None:
        """Keep what is known of the use of keys, if the store takes it."""
        await self._tasks.close()
        await self._stamp()

    async def answer(self, key_hash: str) -> KeyAnswer:
        """What a worker is told of a key; never raises."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await self._known(key_hash)
        except KeyUnknown:
            return KeyAnswer(key_hash=key_hash, outcome="unknown")
        except (LlmgwError, TimeoutError) as error:
            _log.warning("key_not_looked_up", error=str(error) or "the store took too long")
        except Exception as error:  # noqa: BLE001 - a worker waits for the answer
            _log.error("key_not_looked_up", error=repr(error), exc=error)
        return KeyAnswer(key_hash=key_hash, outcome="unavailable")

    def counters_of(self, rows: Sequence[UsageRow]) -> Mapping[str, int]:
        """What rows cost, by the counters that limit their keys."""
        costs: dict[str, int] = {}
        for row in rows:
            for counter in self._levels.get(row.key_id, ()):
                costs[counter] = costs.get(counter, 0) + row.cost_micros
        return costs

    async def _known(self, key_hash: str) -> KeyAnswer:
        principal = await self._owners.principal_of(key_hash)
        counters = [level.counter for level in principal.levels if has_counter(level)]
        slots = await self._slots_of(counters)
        if len(self._levels) >= _MOST_REMEMBERED:
            self._levels.clear()
        self._levels[principal.key_id] = counters
        self._used_at[principal.key_id] = self._clock.wall()
        return KeyAnswer(key_hash=key_hash, outcome="known", principal=principal, slots=slots)

    async def _slots_of(self, counters: Sequence[str]) -> dict[str, int]:
        board = self.slots
        if board is None:
            return {}
        if any(board.slot_of(counter) is None for counter in counters):
            async with self._asking:
                await self._allot(board, counters)
        there = ((counter, board.slot_of(counter)) for counter in counters)
        return {counter: slot for counter, slot in there if slot is not None}

    async def _allot(self, board: Slots, counters: Sequence[str]) -> None:
        missing = [counter for counter in counters if board.slot_of(counter) is None]
        if missing and self._clock.monotonic() - self._asked_at > _FRESH_S:
            if not self._is_caught_up:
                await self._caught_up()
                self._is_caught_up = True
            self._spendings = await self._ask_spendings(now=self._clock.wall())
            self._asked_at = self._clock.monotonic()
        for counter in missing:
            spending = self._spendings.get(counter, rebuilding.NOTHING)
            board.allot(counter, spending, now=self._clock.wall())

    async def _stamp_on(self) -> None:
        while True:
            await asyncio.sleep(_STAMP_EVERY_S)
            await self._stamp()

    async def _stamp(self) -> None:
        used_at, self._used_at = self._used_at, {}
        if not used_at:
            return
        try:
            await self._stamps.touch(used_at)
        except LlmgwError as error:
            _log.warning("use_of_keys_not_kept", error=error.message)
            self._used_at = used_at | self._used_at
