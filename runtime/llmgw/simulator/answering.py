"""Which answer a request gets: the routes of the simulated engine.

Called by ``listening`` with a whole request; writes to a ``Reply``.
"""

from __future__ import annotations

import hmac
import itertools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from llmgw.errors import Invalid
from llmgw.simulator import asks, behaviour, bodies, measures
from llmgw.simulator.asks import Shape
from llmgw.simulator.generating import Generation, Reply
from llmgw.simulator.state import EngineState


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, complete; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class TextReply(Reply, Protocol):
    """A ``Reply`` that also takes plain text."""

    def text(self, status: int, body: str) -> None:
        """Answer with one plain text body."""
        ...


class Pending(Protocol):
    """A request that is not answered yet."""

    def hold(self) -> None:
        """The client reads too slowly."""
        ...

    def go_on(self) -> None:
        """The client has caught up."""
        ...

    def client_left(self) -> None:
        """Nobody waits for the answer any more."""
        ...


class _Silence:
    """A request that is never answered."""

    def hold(self) -> None:
        pass

    def go_on(self) -> None:
        pass

    def client_left(self) -> None:
        pass


class Routes:
    """Answers requests from the state of one engine."""

    def __init__(self, engine: EngineState) -> None:
        """Know the engine; hold nothing else."""
        self._engine = engine
        self._ids = itertools.count(1)
        self._fingerprint = f"sim-{os.getpid()}"
        self._table: Mapping[tuple[str, str], Callable[[Request, TextReply], Pending | None]] = {
            ("GET", "/health"): self._health,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/sim"): self._show_behaviour,
            ("POST", "/sim"): self._change_behaviour,
            ("GET", "/v1/models"): self._models,
            ("POST", "/v1/chat/completions"): self._chat,
            ("POST", "/v1/completions"): self._completion,
            ("POST", "/v1/embeddings"): self._embeddings,
        }

    def answer(self, request: Request, reply: TextReply) -> Pending | None:
        """Answer now, or return what will answer later."""
        route = self._table.get((request.method, request.path))
        if route is None:
            self._no_route(request, reply)
            return None
        if request.path.startswith("/v1/"):
            if not self._is_allowed(request):
                message = "this engine asks for its API key as a bearer token"
                reply.whole(401, bodies.error(message, kind="invalid_request_error", code=401))
                return None
            if not self._engine.is_ready:
                self._loading(reply)
                return None
        try:
            return route(request, reply)
        except Invalid as error:
            reply.whole(400, bodies.error(error.message, kind="invalid_request_error"))
            return None

    def _health(self, _request: Request, reply: TextReply) -> Pending | None:
        if self._engine.behaviour.hang_health:
            return _Silence()
        if self._engine.is_ready:
            reply.whole(200, b'{"status":"ok"}')
        else:
            self._loading(reply)
        return None

    def _metrics(self, _request: Request, reply: TextReply) -> None:
        load = self._engine.load()
        model = self._engine.options.models[0]
        reply.text(200, measures.exposition(self._engine.measures, load, model=model))

    def _show_behaviour(self, _request: Request, reply: TextReply) -> None:
        reply.whole(200, json.dumps(behaviour.shown(self._engine.behaviour)).encode())

    def _change_behaviour(self, request: Request, reply: TextReply) -> None:
        try:
            wanted = json.loads(request.body)
        except ValueError as error:
            raise Invalid("the body is not JSON") from error
        self._engine.behave(behaviour.changed(self._engine.behaviour, wanted))
        self._show_behaviour(request, reply)

    def _models(self, _request: Request, reply: TextReply) -> None:
        options = self._engine.options
        body = bodies.model_list(
            options.models,
            created_at=self._engine.started_at,
            context_length=options.context_length,
        )
        reply.whole(200, body)

    def _chat(self, request: Request, reply: TextReply) -> Pending | None:
        return self._generate(asks.generation(Shape.CHAT, request.body), reply)

    def _completion(self, request: Request, reply: TextReply) -> Pending | None:
        return self._generate(asks.generation(Shape.COMPLETION, request.body), reply)

    def _generate(self, ask: asks.Ask, reply: TextReply) -> Pending | None:
        model = self._known(ask.model, reply)
        if model is None or self._is_failed(reply) or self._is_too_long(ask, reply):
            return None
        label = bodies.Label(
            request_id=f"{os.getpid()}-{next(self._ids)}",
            created_at=self._engine.started_at,
            model=model,
            fingerprint=self._fingerprint,
        )
        if self._engine.slots.is_full:
            body = bodies.error("too many requests wait", kind="server_error", code=503)
            reply.whole(503, body)
            return None
        answer = Generation(engine=self._engine, ask=ask, label=label, reply=reply)
        self._engine.slots.enter(answer)
        return answer

    def _embeddings(self, request: Request, reply: TextReply) -> Pending | None:
        ask = asks.embedding(request.body)
        model = self._known(ask.model, reply)
        if model is None or self._is_failed(reply):
            return None
        if self._engine.behaviour.hang:
            return _Silence()
        reply.whole(200, bodies.embeddings(ask, model=model))
        self._engine.answered()
        return None

    def _known(self, model: str, reply: TextReply) -> str | None:
        models = self._engine.options.models
        if not model:
            return models[0]
        if model in models:
            return model
        message = f"The model `{model}` does not exist."
        body = bodies.error(message, kind="invalid_request_error", code="model_not_found")
        reply.whole(404, body)
        return None

    def _is_failed(self, reply: TextReply) -> bool:
        if not self._engine.is_to_fail():
            return False
        self._engine.measures.failed += 1
        status = self._engine.behaviour.fail_status
        body = bodies.error("failed as it was told to", kind="server_error", code=status)
        reply.whole(status, body)
        return True

    def _is_too_long(self, ask: asks.Ask, reply: TextReply) -> bool:
        bound = self._engine.options.context_length
        asked = ask.prompt_tokens + (ask.max_tokens or 0)
        if asked <= bound:
            return False
        message = (
            f"This model's maximum context length is {bound} tokens. However, you requested "
            f"{asked} tokens ({ask.prompt_tokens} in the messages)."
        )
        code = "context_length_exceeded"
        reply.whole(400, bodies.error(message, kind="invalid_request_error", code=code))
        return True

    def _is_allowed(self, request: Request) -> bool:
        key = self._engine.options.api_key
        if key is None:
            return True
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(given.encode(), key.encode())

    def _loading(self, reply: TextReply) -> None:
        reply.whole(503, bodies.error("Loading model", kind="unavailable_error", code=503))

    def _no_route(self, request: Request, reply: TextReply) -> None:
        is_path_known = any(path == request.path for _, path in self._table)
        status, what = (405, "method") if is_path_known else (404, "route")
        message = f"no such {what}: {request.method} {request.path}"
        reply.whole(status, bodies.error(message, kind="invalid_request_error", code=status))
