"""Tell everybody who keeps account what became of a request.

``pipeline`` and ``dispatch`` call it at each step that somebody counts, so that who counts what is
joined in one place.  Each step is one call; what is off costs a test.
"""

from __future__ import annotations

from collections.abc import Callable

from llmgw.gateway import usage, usage_chunk
from llmgw.gateway.charging import Charges
from llmgw.gateway.endpoints import LiveEndpoint
from llmgw.gateway.events import Events
from llmgw.gateway.exchange import MODEL_PATHS, Exchange
from llmgw.gateway.metering import Meter
from llmgw.gateway.picking import Picked
from llmgw.gateway.receipts import Receipts
from llmgw.gateway.relaying import Relay
from llmgw.gateway.trail import MOST_CANDIDATES, Considered, Step


class Books:
    """See the module; one a worker."""

    __slots__ = ("_charges", "_events", "_meter", "_now", "_receipts", "fallbacks")

    def __init__(
        self,
        meter: Meter,
        *,
        receipts: Receipts | None,
        events: Events | None,
        now: Callable[[], float],
        charges: Charges | None = None,
    ) -> None:
        """Without ``receipts``, ``events`` or ``charges`` none are made."""
        self._charges = charges
        self._meter = meter
        self._events = events
        self._receipts = receipts
        self._now = now
        self.fallbacks: dict[tuple[str, str, str], int] = {}

    def taken_on(self) -> None:
        """A request begins its way to an engine."""
        self._meter.inflight += 1

    def wants_reasons(self, now: float) -> bool:
        """Whether the decision that is being made is to be explained."""
        return self._receipts is not None and self._receipts.may_explain(now)

    def decided(
        self,
        exchange: Exchange,
        considered: tuple[Considered, ...],
        picked: Picked[LiveEndpoint] | None,
    ) -> None:
        """An endpoint was picked among these, or none could be."""
        endpoint_id = "" if picked is None else picked.choice.facts.endpoint_id
        exchange.note(
            Step(self._now(), "decided", endpoint_id, candidates=considered[:MOST_CANDIDATES])
        )

    def fell_back(self, exchange: Exchange, *, to: str, reason: str) -> None:
        """Another model takes a request from ``exchange.model_name``."""
        key = (exchange.model_name, to, reason)
        self.fallbacks[key] = self.fallbacks.get(key, 0) + 1
        if self._receipts is not None:
            exchange.note(Step(self._now(), "fell_back", to, reason))

    def sending(self, exchange: Exchange, live: LiveEndpoint) -> None:
        """An attempt begins, the first of the request or a later one."""
        exchange.engine = live.facts.engine
        if self._charges is not None and exchange.grant is not None:
            self._charges.sending(exchange, exchange.grant, live)
        if self._events is not None:
            if exchange.attempts == 1:
                self._events.submitted(exchange)
            self._events.submitted(exchange, scheduled_on=exchange.endpoint_id)

    def committed(self, exchange: Exchange) -> None:
        """The first byte of an answer came that goes to the client."""
        if self._events is not None:
            self._events.started(exchange)

    def attempt_failed(self, exchange: Exchange, ending: str) -> None:
        """The attempt at ``exchange.endpoint_id`` did not become the answer."""
        self._meter.count_attempt(exchange.model_name, ending)
        if self._receipts is not None:
            exchange.note(Step(self._now(), "attempt_failed", exchange.endpoint_id, ending))
        if self._events is not None:
            self._events.submitted(exchange)

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
        if self._charges is not None and exchange.grant is not None:
            self._charges.ended(exchange, exchange.grant)
        self._meter.record(exchange)
        if self._receipts is not None:
            self._receipts.keep(exchange)
        if self._events is not None:
            if not exchange.attempts:
                self._events.submitted(exchange)
            self._events.ended(exchange)

    def answered_here(self, exchange: Exchange) -> None:
        """A request has ended that needed no engine."""
        self._meter.record(exchange)
        if self._receipts is not None and exchange.path in MODEL_PATHS:
            self._receipts.keep(exchange)
