"""Take one request from its path to its engine: one function a concern, in order.

``connection`` gives each whole request to ``serve``.  Identify, find the route, describe the body
(parsed once), resolve the model, and where keys are asked for hold what it may use; the first
failure answers.  ``arrival`` goes on from there, and the account is settled whatever happens.
"""

from __future__ import annotations

from typing import Final

from llmgw.domain.principals import Principal
from llmgw.domain.routes import RouteTable
from llmgw.gateway import arrival, house_paths, identifying, permitting, usage_chunk
from llmgw.gateway.describing import describe
from llmgw.gateway.exchange import MODEL_PATHS, STREAM_PATHS, Exchange, State
from llmgw.gateway.grants import Grant
from llmgw.gateway.house import House
from llmgw.gateway.identifying import OPEN_PATHS, Identification
from llmgw.gateway.inquiry import Inquiry
from llmgw.gateway.local import LocalRoutes, other_method
from llmgw.gateway.ports import Client, KeyLookup, Siblings
from llmgw.gateway.replies import Answer, Code, Refusal
from llmgw.gateway.surroundings import Surroundings

_PROBES: Final = frozenset({b"/health", b"/ready"})
_POST: Final = (b"POST",)


class Pipeline:
    """The way of every request; fits ``ports.Service``.

    ``table`` is replaced whole by ``server``.
    """

    def __init__(
        self,
        *,
        local: LocalRoutes,
        surroundings: Surroundings,
        siblings: Siblings | None = None,
        keys: KeyLookup | None = None,
        house: House | None = None,
    ) -> None:
        """Without ``siblings`` this worker is alone; without ``keys`` nobody is asked for one.

        ``house`` answers for people, and for owners of keys about these.
        """
        self._house = house
        self.table = RouteTable()
        self._keys = keys
        self._siblings = siblings
        self._local = local
        self._surroundings = surroundings

    def serve(self, client: Client, exchange: Exchange) -> None:
        """See ``ports.Service``."""
        exchange.identify(self._surroundings.new_id)
        keys, path = self._keys, exchange.path
        if keys is None or (path not in MODEL_PATHS and self._is_open(path)):
            self._go(client, exchange)
        else:
            self._identify(client, exchange, keys)

    def _is_open(self, path: bytes) -> bool:
        return path in OPEN_PATHS or (self._house is not None and house_paths.is_open(path))

    def _identify(self, client: Client, exchange: Exchange, keys: KeyLookup) -> None:
        """Go on as soon as it is known whose request it is."""
        token = identifying.token_of(exchange.headers)
        if isinstance(token, Refusal):
            self._answer(client, exchange, token)
            return
        principal = keys.known(token)
        if principal is not None:
            self._go_as(client, exchange, principal)
            return
        Identification(
            client,
            exchange,
            keys=keys,
            go=self._go_as,
            finish=self._answer,
            leave=self._left,
        ).start(token, tasks=self._surroundings.tasks)

    def _go_as(self, client: Client, exchange: Exchange, principal: Principal) -> None:
        exchange.grant = Grant(principal)
        exchange.project = principal.project_id
        self._go(client, exchange)

    def _go(self, client: Client, exchange: Exchange) -> None:
        if exchange.path not in MODEL_PATHS:
            self._answer_locally(client, exchange)
        elif exchange.method != b"POST":
            self._answer(client, exchange, other_method(exchange, allowed=_POST))
        else:
            self._run_model(client, exchange)

    def _answer_locally(self, client: Client, exchange: Exchange) -> None:
        if self._house is not None and house_paths.is_of_house(exchange.path):
            call = self._house.call(client, exchange, finish=self._answer, leave=self._over)
            call.start(tasks=self._surroundings.tasks)
            return
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
        self._over(exchange)

    def _over(self, exchange: Exchange) -> None:
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
        if exchange.grant is not None:
            permitted = permitting.permit(exchange, exchange.grant, model, self._surroundings)
            if isinstance(permitted, Refusal):
                self._answer(client, exchange, permitted)
                return
            model = permitted
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
