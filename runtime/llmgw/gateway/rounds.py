"""Go on with a request whose round is over: another model may take it, or it waits for a new round.

``dispatch`` asks when everybody was tried and failed, which few requests meet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from llmgw.domain.routes import RoutedModel
from llmgw.gateway import picking, suitability
from llmgw.gateway.endpoints import LiveEndpoint
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.scores import Wish
from llmgw.gateway.surroundings import Surroundings
from llmgw.kit.backoff import Backoff

_BETWEEN_ROUNDS = Backoff(base_s=0.3, max_s=6.0, jitter=1 / 3)
"""0.25 s, doubling to 5 s, each up to 20 % more or less."""


class Rounds:
    """The waits of one request between its rounds."""

    __slots__ = ("_again", "_over", "_timer")

    def __init__(self, again: Callable[[], None]) -> None:
        """``again`` begins the next round; a timer calls it, so it raises nothing."""
        self._again = again
        self._over = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the next round is still to come."""
        return self._timer is not None

    def wait(self, *, most_s: float, draw: float) -> None:
        """Begin the next round in a while: longer each time, and at most ``most_s``."""
        wait_s = min(_BETWEEN_ROUNDS.delay_s(attempt=self._over, draw=draw), most_s)
        self._over += 1
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._again)

    def stop(self) -> None:
        """Wait no longer: the next round begins now, or there is none."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def fall_back(
    exchange: Exchange,
    model: RoutedModel,
    *,
    owners: Sequence[LiveEndpoint],
    wish: Wish,
    shared: Surroundings,
) -> tuple[RoutedModel, Wish] | None:
    """Let another model take it, once, where ``owners``, this model's, include no engine any more.

    Returns that model and what the request wishes there.
    """
    if not model.fallbacks or exchange.fell_back_from:
        return None
    if picking.eligible(owners, tried=(), now=shared.now(), wish=wish):
        return None
    chosen = suitability.fallback_of(model, exchange, shared=shared, wish=wish, band=None)
    if chosen is None:
        return None
    return chosen.model, suitability.fall_back(exchange, chosen.model, reason="lost", shared=shared)
