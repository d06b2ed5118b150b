"""Take one request from its path to its engine: one function a concern, in order.

``connection`` gives each whole request to ``serve``.  Identify, find the route, describe the body
(parsed once), resolve the model; the first failure answers.  ``arrival`` goes on from there, and
the account is settled whatever happens.
"""

from __future__ import annotations

from typing import Final

from llmgw.domain.routes import RouteTable
from llmgw.gateway import arrival, usage_chunk
from llmgw.gateway.describing import describe
from llmgw.gateway.exchange import MODEL_PATHS, STREAM_PATHS, Exchange, State
from llmgw.gateway.inquiry import Inquiry
from llmgw.gateway.local import LocalRoutes, other_method
from llmgw.gateway.ports import Client, Siblings
from llmgw.gateway.replies import Answer, Code, Refusal
from llmgw.gateway.surroundings import Surroundings

_PROBES: Final = frozenset({b"/health", b"/ready"})
_POST: Final = (b"POST",)


class Pipeline:
    """The way of every request; fits ``ports.Service``.

    ``table`` is replaced whole by ``server``.
    """

    def __init__(
        self, *, local: LocalRoutes, surroundings: Surroundings, siblings: Siblings | None = None
    ) -> None:
        """Without ``siblings`` this worker is alone."""
        self.table = RouteTable()
        self._siblings = siblings
        self._local = local
        self._surroundings = surroundings

    def serve(self, client: Client, exchange: Exchange) -> None:
        """See ``ports.Service``."""
        exchange.identify(self._surroundings.new_id)
        if exchange.path not in MODEL_PATHS:
            self._answer_locally(client, exchange)
        elif exchange.method != b"POST":
            self._answer(client, exchange, other_method(exchange, allowed=_POST))
        else:
            self._run_model(client, exchange)

    def _answer_locally(self, client: Client, exchange: Exchange) -> None:
        answer, siblings = self._local.answer(exchange), self._siblings
        request_id = self._local.asked_receipt(exchange)
        if isinstance(answer, Refusal) and request_id is not None and siblings is not None:
            Inquiry(
                client,
                exchange,
                siblings=siblings,
                unknown=answer,
                finish=self._answer,
                leave=self._left,
            ).start(request_id, tasks=self._surroundings.tasks)
        else:
            self._answer(client, exchange, answer)

    def _left(self, exchange: Exchange) -> None:
        """Close the account of a client that did not wait for an answer of our own."""
        exchange.state = State.CANCELLED
        exchange.ended_at = self._surroundings.now()
        exchange.forget_content()
        self._surroundings.books.answered_here(exchange)

    def _run_model(self, client: Client, exchange: Exchange) -> None:
        if b"content-encoding" in exchange.headers:
            self._answer(client, exchange, Refusal(Code.UNSUPPORTED_MEDIA_TYPE))
            return
        described = describe(exchange.body)
        if isinstance(described, Refusal):
            self._answer(client, exchange, described)
            return
        # The entry taken now holds for the whole request, whatever table comes meanwhile.
        model = self.table.resolve(described.model)
        if model is None:
            self._answer(client, exchange, Refusal(Code.MODEL_NOT_FOUND, param="model"))
            return
        exchange.asked_name = described.model
        exchange.model_name = model.name
        exchange.request_bytes = exchange.body_bytes
        if described.stream is True:
            exchange.is_stream = True
            if self._surroundings.asks_usage and exchange.path in STREAM_PATHS:
                exchange.usage_asking = usage_chunk.asking(described.stream_options)
        if described.user is not None or described.prompt_cache_key is not None:
            exchange.session_hint = described.session_hint
        arrival.begin(client, exchange, model, self._surroundings)

    def _answer(self, client: Client, exchange: Exchange, answer: Answer | Refusal) -> None:
        """Give an answer of our own and close the account; a probe's leaves no line in the log."""
        exchange.status = answer.status
        if isinstance(answer, Refusal):
            exchange.code = answer.code
            answer = answer.answer(exchange.request_id)
        exchange.state = State.COMPLETED if answer.status < 400 else State.FAILED
        exchange.ended_at = self._surroundings.now()
        exchange.forget_content()
        exchange.is_probe = exchange.path in _PROBES
        self._surroundings.books.answered_here(exchange)
        client.send(answer, exchange)
