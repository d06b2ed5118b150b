"""Tell everybody who keeps account what became of a request.

``pipeline`` and ``dispatch`` call it at each step that somebody counts, so that who counts what is
joined in one place.  Each step is one call; what is off costs a test.
"""

from __future__ import annotations

from llmgw.gateway import usage, usage_chunk
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

    def attempt_failed(self, exchange: Exchange, ending: str) -> None:
        """The attempt at ``exchange.endpoint_id`` did not become the answer."""
        self._meter.count_attempt(exchange.model_name, ending)

    def whole(self, exchange: Exchange, body: bytes, *, is_events: bool) -> bytes:
        """An engine's answer came whole at once: what the client gets of it."""
        if exchange.status >= 300:
            return body
        if is_events and exchange.is_usage_hidden:
            body, exchange.usage = usage_chunk.padded_out(body)
        else:
            exchange.usage = usage.of_body(body)
        if exchange.usage is None:
            exchange.usage = usage.estimate_body(
                request_bytes=exchange.request_bytes, body_bytes=len(body)
            )
        return body

    def relayed(self, exchange: Exchange, relay: Relay) -> None:
        """An answer was passed on in pieces, whole or not."""
        exchange.events = relay.events
        if exchange.status < 300:
            exchange.usage = relay.usage(request_bytes=exchange.request_bytes)
            exchange.lacks_done = exchange.cut is None and relay.lacks_done

    def closed(self, exchange: Exchange) -> None:
        """A request that had been taken on has ended."""
        self._meter.inflight -= 1
        self._meter.record(exchange)

    def answered_here(self, exchange: Exchange) -> None:
        """A request has ended that needed no engine."""
        self._meter.record(exchange)
