"""Keys, limits and accounts of a gateway under test: the real gate, keys and rows in memory."""

from __future__ import annotations

import asyncio

from llmgw.accounting.gate import Gate
from llmgw.accounting.limit_board import LimitBoard
from llmgw.domain.pricing import FREE, PriceTable
from llmgw.errors import KeysUnavailable, KeyUnknown
from llmgw.gateway.doors import Access, Doors
from llmgw.kit.clock import SystemClock


class KeyRing:
    """Fits ``KeyLookup`` and ``UsageSink``; tokens in ``known`` are known at once, others asked."""

    def __init__(self, *, prices=None, default=FREE):
        self.known_now = {}
        self.to_ask = {}
        self.is_away = False
        self.asked = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.notes = []
        self.rows = []
        table = PriceTable(prices or {}, default=default)
        self.gate = Gate(LimitBoard.private(), price_of=table.of, now=SystemClock().wall)

    def doors(self, **admission):
        access = Access(
            keys=self,
            gate=self.gate,
            sink=self,
            look=self.gate.look,
            start=lambda: None,
            close=self._close,
        )
        return Doors(access=access, **admission)

    async def _close(self):
        self.gate.close()

    def known(self, token):
        return self.known_now.get(token)

    async def ask(self, token):
        self.asked.append(token)
        await self.may_answer.wait()
        if self.is_away:
            raise KeysUnavailable("the store is away", retry_after_s=2.0)
        if token not in self.to_ask:
            raise KeyUnknown("nobody has this key")
        return self.to_ask[token]

    def dispatched(self, note):
        self.notes.append(note)

    def ended(self, row):
        self.rows.append(row)

    @property
    def spent(self):
        return sum(row.cost_micros for row in self.rows)
