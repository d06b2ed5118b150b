"""Usage to test with."""

from __future__ import annotations

import itertools

from llmgw.domain.pricing import Price, cost
from llmgw.domain.usage_reports import Amounts, DayCheck, UsageSum
from llmgw.domain.usage_rows import DispatchNote, UsageRow

DAY_S = 86_400
NOON = 1_764_504_000.0
"""2025-11-30, 12:00 UTC."""
MIDNIGHT = NOON - DAY_S / 2
PRICE = Price(1000, 3000)

_numbers = itertools.count(1)


def note(request_id=None, *, at=NOON, key="k1", model="chat", **changed):
    """A request that goes to an engine."""
    values = {
        "user_id": None,
        "project_id": "p1",
        "estimate_prompt": 20,
        "reserved_completion": 100,
        "price": PRICE,
    }
    name = request_id or f"r{next(_numbers)}"
    return DispatchNote(request_id=name, at=at, key_id=key, model=model, **{**values, **changed})


def row(request_id=None, *, at=NOON, key="k1", model="chat", prompt=10, completion=5, **changed):
    """A request that has ended."""
    price = changed.pop("price", PRICE)
    name = request_id or f"r{next(_numbers)}"
    values = {
        "user_id": None,
        "project_id": "p1",
        "served_model": model,
        "endpoint": "e1",
        "node_id": "n1",
        "cached_tokens": None,
        "outcome": "finished",
        "is_estimated": False,
        "status": 200,
        "ttft_ms": 12.5,
        "latency_ms": 340,
        "entry_id": f"j1-{next(_numbers)}",
    }
    return UsageRow(
        request_id=name,
        at=at,
        key_id=key,
        model=model,
        prompt_tokens=prompt,
        completion_tokens=completion,
        price=price,
        **{"cost_micros": cost(price, prompt, completion), **values, **changed},
    )


class FakeUsageBooks:
    """Fits ``api.ports.UsageBooks``: two keys' sums, three requests, and days that agree or not."""

    def __init__(self):
        self.asked = []
        self.requests = [row(f"r{number}", at=NOON + number) for number in range(3)]
        self.has_rows = True

    async def report(self, by, span, *, key_id="", limit):
        self.asked.append((by, span, key_id, limit))
        some = Amounts(3, 1, 1, 0, 1, 30, 15, 4, 75, 1020, 3)
        sums = [
            UsageSum("k1", "laptop", some, budget=1000, period="month"),
            UsageSum("k2", "", Amounts(requests=1)),
        ]
        return sums[:limit]

    async def rows(self, span):
        self.asked.append(("rows", span))
        return self._pages()

    async def _pages(self):
        for one in self.requests:
            yield [one]

    async def check(self, *, days):
        good, bad = Amounts(requests=2), Amounts(requests=1)
        return [DayCheck(MIDNIGHT, good, good, good if self.has_rows else bad)][:days]
