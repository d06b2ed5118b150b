"""Take one request from its path to its engine: one function a concern, in order.

``connection`` gives each whole request to ``serve``.  Identify, find the route, describe the body
(parsed once), resolve the model, dispatch; the first failure answers.  ``dispatch`` goes on from
there and settles the account whatever happens.
"""

from __future__ import annotations

from llmgw.gateway.client_request import ClientRequest
from llmgw.gateway.describing import Description, describe
from llmgw.gateway.dispatch import Dispatch, Surroundings
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.local import LocalRoutes, other_method
from llmgw.gateway.metering import own_line
from llmgw.gateway.ports import Client, RouteSource
from llmgw.gateway.replies import Answer, Code, Refusal

_RUNS_A_MODEL = frozenset({b"/v1/chat/completions", b"/v1/completions", b"/v1/embeddings"})
_PROBES = frozenset({b"/health", b"/ready"})
_POST = (b"POST",)


class Pipeline:
    """The way of every request; fits ``ports.Service``."""

    def __init__(
        self, *, routes: RouteSource, local: LocalRoutes, surroundings: Surroundings
    ) -> None:
        self._routes = routes
        self._local = local
        self._surroundings = surroundings

    def serve(self, client: Client, request: ClientRequest) -> None:
        """See ``ports.Service``."""
        request.identify()
        if request.path not in _RUNS_A_MODEL:
            self._answer(client, request, self._local.answer(request))
        elif (other := other_method(request, allowed=_POST)) is not None:
            self._answer(client, request, other)
        else:
            self._run_model(client, request)

    def _run_model(self, client: Client, request: ClientRequest) -> None:
        described = _describe(request)
        if isinstance(described, Refusal):
            self._answer(client, request, described)
            return
        # The entry taken now holds for the whole request, whatever table comes meanwhile.
        model = self._routes.current().resolve(described.model)
        if model is None:
            self._answer(client, request, Refusal(Code.MODEL_NOT_FOUND, param="model"))
            return
        exchange = Exchange(
            client,
            request,
            model=model,
            asked_name=described.model,
            is_stream=described.stream is True,
        )
        Dispatch(exchange, self._surroundings).start()

    def _answer(self, client: Client, request: ClientRequest, answer: Answer | Refusal) -> None:
        """Give an answer of our own and close the account; a probe's leaves no line in the log."""
        clock, meter = self._surroundings.clock, self._surroundings.meter
        code = answer.code if isinstance(answer, Refusal) else None
        line = own_line(
            request, status=answer.status, code=code, now=clock.monotonic(), at=clock.wall()
        )
        if request.path in _PROBES:
            meter.count(line)
        else:
            meter.record(line)
        request.forget_content()
        if isinstance(answer, Refusal):
            answer = answer.answer(request.request_id)
        client.send(answer, request)


def _describe(request: ClientRequest) -> Description | Refusal:
    coding = request.headers.get(b"content-encoding", b"identity")
    if coding.lower() != b"identity":
        return Refusal(Code.UNSUPPORTED_MEDIA_TYPE)
    return describe(request.body)
