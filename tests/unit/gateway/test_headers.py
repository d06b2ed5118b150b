"""Only what concerns an engine reaches it, and only what concerns a client comes back."""

from __future__ import annotations

import pytest

from llmgw.domain.routes import Endpoint
from llmgw.gateway import headers
from llmgw.gateway.exchange import BodyBudget, Exchange
from llmgw.gateway.grants import Grant
from llmgw.gateway.replies import Answer
from llmgw.gateway.responses import ResponseHead
from tests.fakes.principals import principal


def exchange(*, is_http10=False, closes=False, **fields):
    made = Exchange(BodyBudget(0), 0.0)
    made.request_id, made.request_key = "req-1", b"req-1"
    made.model_name = "m"
    made.attempts = 2
    made.first_sent_at = 1.25
    made.is_http10 = is_http10
    made.closes = closes
    made.headers = {name.replace("_", "-").encode(): value for name, value in fields.items()}
    return made


def to_client(*lines, status=200, **facts):
    head = "\r\n".join([f"HTTP/1.1 {status} X", *lines, "", ""]).encode()
    return headers.answer_head(ResponseHead(head), exchange(**facts))


def test_engine_gets_what_describes_the_body_and_the_trace():
    lines = headers.from_client(
        exchange(
            content_type=b"application/json",
            accept=b"text/event-stream",
            traceparent=b"00-1",
            tracestate=b"a=b",
        )
    )
    assert lines == (
        b"x-request-id: req-1\r\ncontent-type: application/json\r\naccept: text/event-stream\r\n"
        b"traceparent: 00-1\r\ntracestate: a=b\r\n"
    )


@pytest.mark.parametrize(
    "name",
    [
        "authorization",
        "x_api_key",
        "cookie",
        "forwarded",
        "x_forwarded_for",
        "x_llmgw_band",
        "accept_encoding",
        "te",
        "trailer",
        "proxy_authorization",
        "x_secret",
        "host",
        "x_request_id",
    ],
)
def test_engine_never_gets_a_field_that_is_the_clients_own(name):
    assert headers.from_client(exchange(**{name: b"canary"})) == b"x-request-id: req-1\r\n"


def test_field_that_the_connection_names_goes_no_further():
    lines = headers.from_client(exchange(accept=b"*/*", connection=b"close, Accept"))
    assert b"accept" not in lines


def test_endpoint_gets_its_own_key_its_host_and_plain_text():
    endpoint = Endpoint(endpoint_id="e", url="http://h:1", models=(), api_key="secret")
    assert headers.of_endpoint(endpoint, host=b"h:1") == (
        b"host: h:1\r\naccept-encoding: identity\r\nauthorization: Bearer secret\r\n"
    )


ENGINES_RATES = ("X-RateLimit-Limit-Requests: 5000", "x-ratelimit-reset-tokens: 6m0s", "x-kept: 1")


@pytest.mark.parametrize("is_http10", [False, True], ids=["http11", "http10"])
def test_what_is_left_of_a_rate_is_told_once(is_http10):
    head = ResponseHead("\r\n".join(["HTTP/1.1 200 OK", *ENGINES_RATES, "", ""]).encode())
    limited, unlimited = exchange(is_http10=is_http10), exchange(is_http10=is_http10)
    limited.grant, unlimited.grant = Grant(principal()), Grant(principal("k2"))
    limited.grant.told = b"x-ratelimit-limit-requests: 7\r\n"
    for _ in range(2):  # the second time from what was kept of the first
        told = headers.answer_head(head, limited)
        assert told.count(b"x-ratelimit-") == 1
        assert b"x-ratelimit-limit-requests: 7\r\n" in told
        assert b"x-kept: 1\r\n" in told
        for other in (unlimited, exchange(is_http10=is_http10)):
            passed = headers.answer_head(head, other)
            assert b"x-ratelimit-limit-requests: 5000\r\nx-ratelimit-reset-tokens: 6m0s" in passed


def test_answer_carries_its_id_who_served_it_and_how_often_it_was_tried():
    head = to_client("Content-Length: 2", "X-Engine: kept")
    assert head == (
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-engine: kept\r\nx-request-id: req-1\r\n"
        b"x-llmgw-served-model: m\r\nx-llmgw-attempts: 2\r\nx-llmgw-queue-ms: 1250\r\n\r\n"
    )


@pytest.mark.parametrize(
    "name",
    [
        "Connection",
        "Keep-Alive",
        "Proxy-Authenticate",
        "Trailer",
        "TE",
        "Server",
        "Set-Cookie",
        "X-Request-Id",
        "X-Llmgw-Served-Model",
        "X-Llmgw-Attempts",
        "X-Llmgw-Queue-Ms",
        "Access-Control-Allow-Origin",
        "Access-Control-Allow-Credentials",
    ],
)
def test_client_never_gets_what_speaks_of_the_engine_or_its_connection(name):
    assert b"canary" not in to_client(f"{name}: canary", "Content-Length: 0")


def test_field_that_the_engines_connection_names_goes_no_further():
    head = to_client("Connection: keep-alive, X-Hop", "X-Hop: canary", "Content-Length: 0")
    assert b"canary" not in head


def test_event_stream_is_neither_cached_nor_buffered():
    head = to_client("Content-Type: text/event-stream; charset=utf-8", "Cache-Control: max-age=9")
    assert head.count(b"cache-control") == 1
    assert b"cache-control: no-cache\r\n" in head
    assert b"x-accel-buffering: no\r\n" in head
    assert b"content-type: text/event-stream; charset=utf-8\r\n" in head


def test_client_of_http10_hears_no_word_of_chunks():
    assert b"chunked" in to_client("Transfer-Encoding: chunked")
    assert b"chunked" not in to_client("Transfer-Encoding: chunked", is_http10=True, closes=True)


def test_answer_that_ends_the_connection_says_so():
    assert to_client(closes=True).endswith(b"\r\nconnection: close\r\n\r\n")


def test_status_that_nobody_registered_is_passed_on():
    assert to_client(status=599).startswith(b"HTTP/1.1 599 \r\n")


def test_own_answer_to_head_has_the_length_and_no_body():
    answer = Answer(200, b"abc", fields=((b"allow", b"GET"),))
    asked = exchange()
    asked.method = b"HEAD"
    text = headers.own_answer(answer, asked)
    assert text == (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3\r\n"
        b"x-request-id: req-1\r\nallow: GET\r\n"
        b"x-llmgw-attempts: 2\r\nx-llmgw-queue-ms: 1250\r\n\r\n"
    )


def test_own_answer_to_what_was_never_sent_tells_how_long_it_waited():
    asked = exchange()
    asked.attempts, asked.first_sent_at, asked.ended_at = 0, 0.0, 3.5
    assert b"x-llmgw-attempts: 0\r\nx-llmgw-queue-ms: 3500\r\n" in headers.own_answer(
        Answer(429, b""), asked
    )


def test_own_answer_about_no_model_tells_nothing_of_attempts():
    asked = exchange()
    asked.model_name = ""
    assert b"x-llmgw" not in headers.own_answer(Answer(200, b""), asked)
