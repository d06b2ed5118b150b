"""Tell everybody who keeps account what became of a request.

``pipeline`` and ``dispatch`` call it at each step that somebody counts, so that who counts what is
joined in one place.  Each step is one call; what is off costs a test.
"""

from __future__ import annotations

from llmgw.gateway.exchange import Exchange
from llmgw.gateway.metering import Meter
from llmgw.gateway.relaying import Relay


class Books:
    """See the module; one a worker."""

    __slots__ = ("_meter",)

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def taken_on(self) -> None:
        """A request begins its way to an engine."""
        self._meter.inflight += 1

    def attempt_failed(self, exchange: Exchange, ending: str) -> None:  # noqa: ARG002 - for receipts
        """The attempt at ``exchange.endpoint_id`` did not become the answer."""
        self._meter.count_attempt(ending)

    def relayed(self, exchange: Exchange, relay: Relay) -> None:
        """An answer was passed on in pieces, whole or not."""
        exchange.events = relay.events

    def closed(self, exchange: Exchange) -> None:
        """A request that had been taken on has ended."""
        self._meter.inflight -= 1
        self._meter.record(exchange)

    def answered_here(self, exchange: Exchange) -> None:
        """A request has ended that needed no engine."""
        self._meter.record(exchange)
