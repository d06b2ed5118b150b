"""Which header fields pass, in which direction, and how heads are written.

``dispatch`` writes the head that an engine gets, ``relaying`` the head of an engine's answer for
the client, ``connection`` the head of our own answers.  Pure.

Towards engines only the fields in ``_TO_ENGINE`` pass, so no key, cookie, forwarded address or
``x-llmgw-`` field of a client ever reaches one.  Towards clients everything passes except what
speaks of the connection or of the engine itself.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from llmgw.domain.routes import Endpoint
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.replies import Answer
from llmgw.gateway.responses import ResponseHead

_TO_ENGINE: Final = (b"content-type", b"accept", b"traceparent", b"tracestate")
_HARMLESS_CONNECTION: Final = frozenset({b"", b"close", b"keep-alive"})

_NOT_TO_CLIENT: Final = frozenset(
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
        b"x-llmgw-queue-ms",
        # The engine's word on cross-origin use; it knows nothing of who may use the gateway.
        b"access-control-allow-credentials",
        b"access-control-allow-headers",
        b"access-control-allow-methods",
        b"access-control-allow-origin",
        b"access-control-expose-headers",
        b"access-control-max-age",
    }
)
_NOT_WITH_EVENTS: Final = frozenset({b"cache-control", b"x-accel-buffering"})
_ABOUT_RATES: Final = b"x-ratelimit-"
_ABOUT_CHUNKS: Final = frozenset({b"transfer-encoding"})
_FRAMING: Final = frozenset({b"transfer-encoding", b"content-length"})
_ABOUT_BODY: Final = b"content-type: %b\r\ncontent-length: %d\r\n"
_FOR_EVENTS: Final = b"cache-control: no-cache\r\nx-accel-buffering: no\r\n"
_CLOSE: Final = b"connection: close\r\n"
_ANSWER_HEAD: Final = (
    b"%bx-request-id: %b\r\nx-llmgw-served-model: %b\r\n"
    b"x-llmgw-attempts: %d\r\nx-llmgw-queue-ms: %d\r\n%b\r\n"
)

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
"""The interim answer that asks a client for its body."""


def named_by_connection(value: bytes) -> frozenset[bytes]:
    """The fields that a ``Connection`` field names, in lower case."""
    return frozenset(word.strip() for word in value.lower().split(b",")) - _HARMLESS_CONNECTION


def from_client(exchange: Exchange) -> bytes:
    """The lines of an engine's request head that come from the client's request."""
    fields = exchange.headers
    lines = b"x-request-id: %b\r\n" % exchange.request_key
    named: frozenset[bytes] = frozenset()
    connection = fields.get(b"connection")
    if connection is not None and connection not in _HARMLESS_CONNECTION:
        named = named_by_connection(connection)
    for name in _TO_ENGINE:
        if name in fields and name not in named:
            lines += b"%b: %b\r\n" % (name, fields[name])
    return lines


def of_endpoint(endpoint: Endpoint, *, host: bytes) -> bytes:
    """The lines that every request to an endpoint carries."""
    lines = b"host: %b\r\naccept-encoding: identity\r\n" % host
    if endpoint.api_key:
        lines += b"authorization: Bearer %b\r\n" % endpoint.api_key.encode()
    return lines


def answer_head(head: ResponseHead, exchange: Exchange) -> bytes:
    """The head of an engine's answer as the client gets it, up to and with the empty line.

    A client that speaks HTTP/1.0 hears no word of chunks.
    """
    told = b"" if exchange.grant is None else exchange.grant.told
    passed = head.passed_beside_rates if told else head.passed
    if exchange.is_http10 or not passed:
        passed = _passed(head, is_http10=exchange.is_http10, has_rates=told != b"")
    ours = told + _CLOSE if exchange.closes else told
    return _ANSWER_HEAD % (
        passed,
        exchange.request_key,
        exchange.model_name.encode(),
        exchange.attempts,
        (exchange.first_sent_at - exchange.started_at) * 1000,
        ours,
    )


def _passed(head: ResponseHead, *, is_http10: bool, has_rates: bool) -> bytes:
    """Status line and fields that a client gets; kept, because heads of an engine repeat.

    ``has_rates``: what is left of a rate is told by us, so what its engine tells is not.
    """
    dropped = _NOT_TO_CLIENT
    if head.connection:
        dropped |= named_by_connection(head.connection) - _FRAMING
    if head.is_events:
        dropped |= _NOT_WITH_EVENTS
    if is_http10:
        dropped |= _ABOUT_CHUNKS
    if head.status in {204, 304}:  # which end with their head, whatever it says of a body
        dropped |= _FRAMING
    first = _STATUS_LINES.get(head.status) or b"HTTP/1.1 %d \r\n" % head.status
    fields = [
        b"%b: %b\r\n" % field
        for field in head.fields
        if field[0] not in dropped and not (has_rates and field[0].startswith(_ABOUT_RATES))
    ]
    passed = b"".join([first, *fields, _FOR_EVENTS if head.is_events else b""])
    if has_rates and not is_http10:
        head.passed_beside_rates = passed
    elif not is_http10:
        head.passed = passed
    return passed


def early_head(exchange: Exchange) -> bytes:
    """The head of a stream that begins before anybody knows which model will answer."""
    return b"%bcontent-type: text/event-stream\r\n%btransfer-encoding: chunked\r\n%b%b\r\n" % (
        _STATUS_LINES[200],
        _FOR_EVENTS,
        b"x-request-id: %b\r\n" % exchange.request_key,
        _CLOSE if exchange.closes else b"",
    )


def own_answer(answer: Answer, exchange: Exchange) -> bytes:
    """Head and body of an answer of our own; a HEAD request gets the head alone."""
    lines = [
        _STATUS_LINES[answer.status],
        b"" if answer.status == 204 else _ABOUT_BODY % (answer.content_type, len(answer.body)),
        b"x-request-id: %b\r\n" % exchange.request_key,
        *(b"%b: %b\r\n" % field for field in answer.fields),
        _way(exchange) if exchange.model_name else b"",
        b"" if exchange.grant is None else exchange.grant.told,
        _CLOSE if exchange.closes else b"",
        b"\r\n",
        b"" if exchange.method == b"HEAD" else answer.body,
    ]
    return b"".join(lines)


def _way(exchange: Exchange) -> bytes:
    """How often a request for a model was sent, and how long it took to be sent at all."""
    until = exchange.first_sent_at or exchange.ended_at
    waited_ms = max(until - exchange.started_at, 0.0) * 1000
    return b"x-llmgw-attempts: %d\r\nx-llmgw-queue-ms: %d\r\n" % (exchange.attempts, waited_ms)
