"""Turn a refusal into the body that OpenAI clients understand: one table of codes.

``pipeline``, ``dispatch`` and ``connection`` refuse with a ``Refusal``; ``relaying`` uses the same
words for a stream that broke.  No text of a request is ever quoted.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

import orjson


class Code(enum.StrEnum):
    """The closed vocabulary of ``error.code``."""

    MALFORMED_REQUEST = "malformed_request"
    INVALID_JSON = "invalid_json"
    MISSING_MODEL = "missing_model"
    INVALID_FIELD = "invalid_field"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    UNSUPPORTED_CAPABILITY = "unsupported_capability"
    MODEL_NOT_FOUND = "model_not_found"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    BODY_TIMEOUT = "body_timeout"
    BODY_TOO_LARGE = "body_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    EXPECTATION_FAILED = "expectation_failed"
    HEADERS_TOO_LARGE = "headers_too_large"
    OVERLOADED = "overloaded"
    INVALID_API_KEY = "invalid_api_key"
    MODEL_NOT_ALLOWED = "model_not_allowed"
    REQUESTS_PER_MINUTE = "requests_per_minute"
    TOKENS_PER_MINUTE = "tokens_per_minute"
    CONCURRENT_REQUESTS = "concurrent_requests"
    BUDGET_EXHAUSTED = "budget_exhausted"
    AUTH_UNAVAILABLE = "auth_unavailable"
    HOUSE_AWAY = "house_away"
    INTERNAL = "internal"
    UPSTREAM_UNREACHABLE = "upstream_unreachable"
    UPSTREAM_AUTH_FAILED = "upstream_auth_failed"
    MODEL_LOADING = "model_loading"
    LOAD_FAILED = "load_failed"
    NO_ENDPOINTS = "no_endpoints"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    NO_OWNER_RETURNED = "no_owner_returned"
    MEMORY_PRESSURE = "memory_pressure"
    TOO_MANY_CONNECTIONS = "too_many_connections"
    SHUTTING_DOWN = "shutting_down"
    NO_FIRST_BYTE = "no_first_byte"
    HTTP_VERSION_NOT_SUPPORTED = "http_version_not_supported"
    STREAM_TRUNCATED = "stream_truncated"


@dataclass(frozen=True, slots=True)
class _Row:
    status: int
    kind: str
    message: str


_INVALID = "invalid_request_error"
_UPSTREAM = "upstream_error"
_UNAVAILABLE = "unavailable_error"
_LIMITED = "rate_limit_error"

_ROWS = {
    Code.MALFORMED_REQUEST: _Row(400, _INVALID, "The request is not valid HTTP/1.1."),
    Code.INVALID_JSON: _Row(400, _INVALID, "The body is not a JSON object."),
    Code.MISSING_MODEL: _Row(400, _INVALID, "The body names no model: set `model`."),
    Code.INVALID_FIELD: _Row(400, _INVALID, "A field of the body has the wrong type."),
    Code.CONTEXT_LENGTH_EXCEEDED: _Row(
        400, _INVALID, "The prompt is longer than this model reads."
    ),
    Code.UNSUPPORTED_CAPABILITY: _Row(
        400, _INVALID, "The request needs something that this model does not do."
    ),
    Code.MODEL_NOT_FOUND: _Row(404, _INVALID, "There is no such model: GET /v1/models lists them."),
    Code.NOT_FOUND: _Row(404, _INVALID, "There is nothing at this path."),
    Code.METHOD_NOT_ALLOWED: _Row(405, _INVALID, "This path does not answer this method."),
    Code.BODY_TIMEOUT: _Row(408, _INVALID, "The request did not arrive in time."),
    Code.BODY_TOO_LARGE: _Row(413, _INVALID, "The body is larger than this gateway accepts."),
    Code.UNSUPPORTED_MEDIA_TYPE: _Row(
        415, _INVALID, "Send the body as plain JSON, without a content encoding."
    ),
    Code.EXPECTATION_FAILED: _Row(417, _INVALID, "Only `Expect: 100-continue` is understood."),
    Code.HEADERS_TOO_LARGE: _Row(
        431, _INVALID, "The head of the request is larger than this gateway accepts."
    ),
    Code.INVALID_API_KEY: _Row(
        401, "authentication_error", "The API key is unknown, revoked or past its time."
    ),
    Code.MODEL_NOT_ALLOWED: _Row(
        403, "permission_error", "Your key may not use this model: GET /v1/models lists yours."
    ),
    Code.REQUESTS_PER_MINUTE: _Row(429, _LIMITED, "Too many requests in a minute."),
    Code.TOKENS_PER_MINUTE: _Row(429, _LIMITED, "Too many tokens in a minute."),
    Code.CONCURRENT_REQUESTS: _Row(429, _LIMITED, "Too many requests at the same time."),
    Code.BUDGET_EXHAUSTED: _Row(429, "insufficient_quota", "The budget is spent."),
    Code.AUTH_UNAVAILABLE: _Row(
        503, _UNAVAILABLE, "Whose this key is cannot be found out now; try again soon."
    ),
    Code.HOUSE_AWAY: _Row(
        503, _UNAVAILABLE, "The control plane does not answer now; models are served on."
    ),
    Code.OVERLOADED: _Row(429, _LIMITED, "The engines of this model are busy; try again later."),
    Code.INTERNAL: _Row(500, "server_error", "The gateway failed; its log tells why."),
    Code.UPSTREAM_UNREACHABLE: _Row(
        502, _UPSTREAM, "No engine could be reached that answers for this model."
    ),
    Code.UPSTREAM_AUTH_FAILED: _Row(
        502, _UPSTREAM, "The engine refused the gateway's own key; tell the operator."
    ),
    Code.MODEL_LOADING: _Row(503, _UNAVAILABLE, "The model is being loaded; try again soon."),
    Code.LOAD_FAILED: _Row(503, _UNAVAILABLE, "The model does not start; tell the operator."),
    Code.NO_ENDPOINTS: _Row(503, _UNAVAILABLE, "The model is known, and no engine serves it now."),
    Code.DEADLINE_EXCEEDED: _Row(
        503, _UNAVAILABLE, "The request was tried again and again for too long."
    ),
    Code.NO_OWNER_RETURNED: _Row(
        503, _UNAVAILABLE, "The engine of this model went away and did not come back."
    ),
    Code.MEMORY_PRESSURE: _Row(
        503, _UNAVAILABLE, "The gateway holds too many request bodies; try again soon."
    ),
    Code.TOO_MANY_CONNECTIONS: _Row(
        503, _UNAVAILABLE, "The gateway has as many connections as it may; try again soon."
    ),
    Code.SHUTTING_DOWN: _Row(503, _UNAVAILABLE, "The gateway is stopping; try again."),
    Code.NO_FIRST_BYTE: _Row(504, _UPSTREAM, "The engine began to answer and sent nothing."),
    Code.HTTP_VERSION_NOT_SUPPORTED: _Row(
        505, _INVALID, "Only HTTP/1.0 and HTTP/1.1 are spoken here."
    ),
    Code.STREAM_TRUNCATED: _Row(502, _UPSTREAM, "The engine's stream broke off."),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer of our own, ready to be framed."""

    status: int
    body: bytes
    content_type: bytes = b"application/json"
    fields: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request gets an answer of our own in place of an engine's."""

    code: Code
    message: str = ""
    param: str | None = None
    retry_after_s: int | None = None
    allow: str = ""

    @property
    def status(self) -> int:
        """The HTTP status of its code."""
        return _ROWS[self.code].status

    def answer(self, request_id: str) -> Answer:
        """The refusal as an answer: ``{"error": {…}}`` and the header fields that go with it."""
        return Answer(self.status, self.body(request_id), fields=tuple(self._fields()))

    def body(self, request_id: str) -> bytes:
        """The JSON body alone."""
        row = _ROWS[self.code]
        error = {
            "message": self.message or row.message,
            "type": row.kind,
            "param": self.param,
            "code": self.code,
            "request_id": request_id,
        }
        return orjson.dumps({"error": error})

    def _fields(self) -> Iterator[tuple[bytes, bytes]]:
        if self.retry_after_s is not None:
            yield b"retry-after", b"%d" % self.retry_after_s
        if self.allow:
            yield b"allow", self.allow.encode()
        if self.status == 401:
            yield b"www-authenticate", b"Bearer"


def truncation_event(request_id: str, code: Code = Code.STREAM_TRUNCATED) -> bytes:
    """The server-sent event that tells of a broken stream; blank lines first end an open event."""
    return b"\n\ndata: " + Refusal(code).body(request_id) + b"\n\n"
