"""Hold for a request what it may use, and tell what it used: once, however it ends.

``permitting`` has it reserve, ``books`` tells it of the first attempt and of the end.  What is sent
to no engine costs nothing and leaves no row; what breaks off is charged with what came of it, and
its prompt as cheaply as one of its length ever was, so never with more than its engine counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llmgw.domain.routes import RoutedModel
from llmgw.domain.usage_rows import DispatchNote, Outcome, UsageRow
from llmgw.errors import LimitReached
from llmgw.gateway import bounding, estimating
from llmgw.gateway.endpoints import LiveEndpoint
from llmgw.gateway.exchange import Exchange, State
from llmgw.gateway.grants import Grant, Hold
from llmgw.gateway.ports import LimitGate, UsageSink

_SMALL_BYTES: Final = 16_384
"""Of a shorter body the length tells enough of its prompt."""

_BYTES_PER_TOKEN: Final = 4
_EMBEDDINGS: Final = b"/v1/embeddings"
_COMPLETED: Final = State.COMPLETED
_CANCELLED: Final = State.CANCELLED


class Charges:
    """See the module; one a worker."""

    __slots__ = ("_cheapest", "_default_tokens", "_gate", "_sink", "_wall")

    def __init__(
        self,
        gate: LimitGate,
        *,
        sink: UsageSink,
        default_tokens: int,
        wall: Callable[[], float],
    ) -> None:
        """``default_tokens`` are held for an answer whose request does not say how long it is."""
        self._gate = gate
        self._sink = sink
        self._default_tokens = default_tokens
        self._wall = wall
        self._cheapest: dict[str, float] = {}

    def reserve(self, exchange: Exchange, grant: Grant, model: RoutedModel) -> None:
        """Hold what the request may use of this model; raises ``LimitReached``."""
        if not grant.prompt_tokens:
            grant.prompt_tokens = _prompt_tokens(exchange)

        def most_answered() -> int:
            context = model.context_length
            if exchange.path == _EMBEDDINGS:
                return 0
            return bounding.most_answered(
                exchange.body,
                default_tokens=self._default_tokens,
                context_left=None if context is None else context - grant.prompt_tokens,
            )

        grant.hold = hold = self._gate.reserve(
            grant.principal,
            model.name,
            prompt_tokens=grant.prompt_tokens,
            completion_tokens=most_answered,
        )
        grant.told = hold.told

    def refused(self, grant: Grant) -> None:
        """It was not let in: have its answer tell what is left of the rates above its key."""
        grant.told = self._gate.told(grant.principal)

    def move(self, grant: Grant, model: RoutedModel) -> bool:
        """Hold the same for another model, if its price allows that."""
        if grant.hold is None:
            return True
        try:
            grant.hold = self._gate.move(grant.hold, model.name)
        except LimitReached:
            return False
        return True

    def sending(self, exchange: Exchange, grant: Grant, live: LiveEndpoint) -> None:
        """An attempt begins; before the first one it is noted that somebody will have to pay."""
        grant.node_id = live.facts.node_id
        hold = grant.hold
        if grant.sent_at or hold is None:
            return
        grant.sent_at = self._wall()
        principal = grant.principal
        self._sink.dispatched(
            # By position, as the row below: by name it takes three times as long.
            DispatchNote(
                exchange.request_id,
                grant.sent_at,
                principal.key_id,
                principal.user_id,
                principal.project_id,
                exchange.asked_name,
                grant.prompt_tokens,
                hold.completion_tokens,
                hold.price,
                hold.counters,
                exchange.model_name,
            )
        )

    def ended(self, exchange: Exchange, grant: Grant) -> None:
        """The request is over; called once and again without effect."""
        hold, grant.hold = grant.hold, None
        if hold is None:
            return
        if not grant.sent_at:
            self._gate.cancel(hold)
            return
        self._settle(exchange, grant, hold)

    def _settle(self, exchange: Exchange, grant: Grant, hold: Hold) -> None:
        usage, outcome = exchange.usage, _outcome(exchange)
        prompt_tokens = completion_tokens = 0
        cached_tokens: int | None = None
        is_estimated = outcome != "finished"
        if usage is not None:
            prompt_tokens, completion_tokens = usage.prompt_tokens, usage.completion_tokens
            cached_tokens, is_estimated = usage.cached_tokens, usage.is_estimated
            if is_estimated and outcome != "finished":
                prompt_tokens = self._least_prompt(exchange)
            elif not is_estimated:
                self._learn(exchange, prompt_tokens)
        cost_micros = self._gate.settle(
            hold, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens
        )
        principal, begun_at = grant.principal, exchange.started_at
        first_byte_at = exchange.first_byte_at
        self._sink.ended(
            UsageRow(
                exchange.request_id,
                grant.sent_at,
                principal.key_id,
                principal.user_id,
                principal.project_id,
                exchange.asked_name,
                exchange.model_name,
                exchange.endpoint_id,
                grant.node_id,
                prompt_tokens,
                completion_tokens,
                cached_tokens,
                cost_micros,
                hold.price,
                outcome,
                is_estimated,
                exchange.status,
                (first_byte_at - exchange.sent_at) * 1000 if first_byte_at else None,
                (exchange.ended_at - begun_at) * 1000,
            )
        )

    def _learn(self, exchange: Exchange, prompt_tokens: int) -> None:
        """Keep what a byte costs at least, at this model."""
        if exchange.request_bytes:
            each = prompt_tokens / exchange.request_bytes
            least = self._cheapest.get(exchange.model_name)
            if least is None or each < least:
                self._cheapest[exchange.model_name] = each

    def _least_prompt(self, exchange: Exchange) -> int:
        return int(self._cheapest.get(exchange.model_name, 0.0) * exchange.request_bytes)


def _prompt_tokens(exchange: Exchange) -> int:
    """Of the whole conversation, about."""
    if exchange.prompt_tokens:
        return exchange.prompt_tokens
    if exchange.body_bytes <= _SMALL_BYTES:
        return exchange.body_bytes // _BYTES_PER_TOKEN
    return estimating.estimate_tokens(exchange.body)


def _outcome(exchange: Exchange) -> Outcome:
    if exchange.state is _CANCELLED:
        return "aborted"
    is_whole = exchange.state is _COMPLETED and exchange.cut is None
    return "finished" if is_whole else "failed"
