"""Which header fields pass, in which direction, and how heads are written.

``dispatch`` writes the head that an engine gets, ``relaying`` the head of an engine's answer for
the client, ``connection`` the head of our own answers.  Pure.

Towards engines only the fields in ``_TO_ENGINE`` pass, so no key, cookie, forwarded address or
``x-llmgw-`` field of a client ever reaches one.  Towards clients everything passes except what
speaks of the connection or of the engine itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from llmgw.domain.routes import Endpoint
from llmgw.gateway.replies import Answer
from llmgw.gateway.responses import ResponseHead

_TO_ENGINE = (b"content-type", b"accept", b"traceparent", b"tracestate")
_HARMLESS_CONNECTION = frozenset({b"", b"close", b"keep-alive"})

_NOT_TO_CLIENT = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"upgrade",
        b"server",
        b"set-cookie",
        b"x-request-id",
        b"x-llmgw-served-model",
        b"x-llmgw-attempts",
        # The engine's word on cross-origin use; it knows nothing of who may use the gateway.
        b"access-control-allow-credentials",
        b"access-control-allow-headers",
        b"access-control-allow-methods",
        b"access-control-allow-origin",
        b"access-control-expose-headers",
        b"access-control-max-age",
    }
)
_NOT_WITH_EVENTS = frozenset({b"cache-control", b"x-accel-buffering"})
_ABOUT_CHUNKS = frozenset({b"transfer-encoding"})
_FOR_EVENTS = b"cache-control: no-cache\r\nx-accel-buffering: no\r\n"
_CLOSE = b"connection: close\r\n"
_ANSWER_HEAD = (
    b"%b%bx-request-id: %b\r\nx-llmgw-served-model: %b\r\nx-llmgw-attempts: %d\r\n%b%b\r\n"
)

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
"""The interim answer that asks a client for its body."""


def named_by_connection(value: bytes) -> frozenset[bytes]:
    """The fields that a ``Connection`` field names, in lower case."""
    return frozenset(word.strip() for word in value.lower().split(b",")) - _HARMLESS_CONNECTION


def engine_request(
    *,
    path: bytes,
    endpoint_fields: bytes,
    request_id: str,
    client_fields: Mapping[bytes, bytes],
    body_bytes: int,
) -> bytes:
    """The head of a request to an engine."""
    named: frozenset[bytes] = frozenset()
    if b"connection" in client_fields:
        named = named_by_connection(client_fields[b"connection"])
    passed = b""
    for name in _TO_ENGINE:
        if name in client_fields and name not in named:
            passed += b"%b: %b\r\n" % (name, client_fields[name])
    return b"POST %b HTTP/1.1\r\n%bx-request-id: %b\r\n%bcontent-length: %d\r\n\r\n" % (
        path,
        endpoint_fields,
        request_id.encode(),
        passed,
        body_bytes,
    )


def of_endpoint(endpoint: Endpoint, *, host: bytes) -> bytes:
    """The lines that every request to an endpoint carries."""
    lines = b"host: %b\r\naccept-encoding: identity\r\n" % host
    if endpoint.api_key:
        lines += b"authorization: Bearer %b\r\n" % endpoint.api_key.encode()
    return lines


def answer_head(
    head: ResponseHead,
    *,
    request_id: str,
    served_model: str,
    attempts: int,
    is_chunk_aware: bool,
    closes: bool,
) -> bytes:
    """The head of an engine's answer as the client gets it, up to and with the empty line.

    A client that is not ``is_chunk_aware`` hears no word of chunks.
    """
    dropped = _NOT_TO_CLIENT
    if head.connection:
        dropped |= named_by_connection(head.connection)
    if head.is_events:
        dropped |= _NOT_WITH_EVENTS
    if not is_chunk_aware:
        dropped |= _ABOUT_CHUNKS
    passed = [b"%b: %b\r\n" % field for field in head.fields if field[0] not in dropped]
    return _ANSWER_HEAD % (
        status_line(head.status),
        b"".join(passed),
        request_id.encode(),
        served_model.encode(),
        attempts,
        _FOR_EVENTS if head.is_events else b"",
        _CLOSE if closes else b"",
    )


def own_answer(answer: Answer, *, request_id: str, closes: bool, is_head: bool = False) -> bytes:
    """Head and body of an answer of our own; a HEAD request gets the head alone."""
    lines = [
        status_line(answer.status),
        b"content-type: %b\r\n" % answer.content_type,
        b"content-length: %d\r\n" % len(answer.body),
        b"x-request-id: %b\r\n" % request_id.encode(),
        *(b"%b: %b\r\n" % field for field in answer.fields),
        _CLOSE if closes else b"",
        b"\r\n",
        b"" if is_head else answer.body,
    ]
    return b"".join(lines)


def status_line(status: int) -> bytes:
    """The first line of an answer; a status that nobody registered gets no phrase."""
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
