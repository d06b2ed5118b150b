"""Endpoints as ``picking`` sees them, with figures that a test sets."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from llmgw.gateway import costs, ranking
from llmgw.gateway.breaker import Breaker, BreakerRules, Outcome, Permit
from llmgw.gateway.choice import Choice
from llmgw.gateway.costs import Standing

_incarnations = itertools.count(1)


@dataclass(eq=False)
class Engine(Choice):
    """Fresh, idle and with room for 8 by weight unless told otherwise."""

    name: str = "e"
    inflight: int = 0
    reserved: int = 0
    weight: float = 1.0
    priority: int = 0
    is_ready: bool = True
    context_length: int | None = None
    standing: Standing | None = None
    breaker: Breaker = field(default_factory=lambda: Breaker(BreakerRules()))

    def __post_init__(self):
        self.salt = ranking.salt(self.name)
        self.incarnation = next(_incarnations)
        self.stand(self.standing or standing(capacity=8 * self.weight, share=8 * self.weight))

    def stand(self, standing):
        self.standing = standing
        self.curves = costs.curves(standing)

    def load(self):
        return max(self.inflight, self.standing.seen + self.reserved)

    def occupied(self):
        return self.inflight

    def fail(self, at):
        for _ in range(3):
            self.breaker.record(Outcome.FAILED, at, permit=Permit.ORDINARY)
        return self


def standing(**figures):
    """One that is fresh."""
    return Standing(**{"is_stale": False, **figures})
