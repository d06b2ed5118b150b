"""What is known of one request for a model, from its description to its last byte.

``pipeline`` makes it, ``dispatch`` fills it in, and its ``line`` is what is kept when it ends.
"""

from __future__ import annotations

from llmgw.domain.routes import RoutedModel
from llmgw.gateway import headers
from llmgw.gateway.client_request import ClientRequest
from llmgw.gateway.metering import RequestLine, State
from llmgw.gateway.ports import Client
from llmgw.gateway.replies import Code

CLIENT_GONE = 499
"""Status under which a request is counted whose client left before any answer."""


class Exchange:
    """One request on its way; times are monotonic seconds, 0 where the thing did not happen."""

    __slots__ = (
        "asked_name",
        "attempts",
        "client",
        "code",
        "endpoint_id",
        "events",
        "first_byte_at",
        "first_sent_at",
        "is_stream",
        "is_truncated",
        "model",
        "request",
        "sent_at",
        "status",
    )

    def __init__(
        self,
        client: Client,
        request: ClientRequest,
        *,
        model: RoutedModel,
        asked_name: str,
        is_stream: bool,
    ) -> None:
        """``asked_name`` is the model's name in the body, perhaps an alias."""
        self.client = client
        self.request = request
        self.model = model
        self.asked_name = asked_name
        self.is_stream = is_stream
        self.attempts = 0
        self.endpoint_id: str | None = None
        self.first_sent_at = 0.0
        self.sent_at = 0.0
        self.first_byte_at = 0.0
        self.status = CLIENT_GONE
        self.code: Code | None = None
        self.events = 0
        self.is_truncated = False

    def answer_fields(self) -> bytes:
        """The lines that we add to the head of an engine's answer."""
        return b"x-request-id: %b\r\nx-llmgw-served-model: %b\r\nx-llmgw-attempts: %d\r\n" % (
            self.request.request_id.encode(),
            self.model.name.encode(),
            self.attempts,
        )

    def engine_fields(self) -> bytes:
        """The lines of an engine's request head that come from the client."""
        return headers.to_engine(self.request.headers, request_id=self.request.request_id)

    def line(self, state: State, *, now: float, at: float) -> RequestLine:
        """The account of the request as it ended; ``at`` is the wall clock."""
        request = self.request
        first_sent_at, first_byte_at = self.first_sent_at, self.first_byte_at
        return RequestLine(
            at=at,
            request_id=request.request_id,
            method=request.method.decode(),
            path=request.path.decode(),
            status=self.status,
            state=state,
            total_ms=(now - request.started_at) * 1000,
            model=self.model.name,
            endpoint=self.endpoint_id,
            code=self.code,
            is_stream=self.is_stream,
            attempts=self.attempts,
            queue_ms=(first_sent_at - request.started_at) * 1000 if first_sent_at else None,
            ttft_ms=(first_byte_at - self.sent_at) * 1000 if first_byte_at else None,
            events=self.events,
            is_truncated=self.is_truncated,
        )
