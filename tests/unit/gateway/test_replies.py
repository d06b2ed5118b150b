"""Every refusal is a body that OpenAI clients understand, from a closed vocabulary."""

from __future__ import annotations

import orjson
import pytest

from llmgw.gateway.replies import Code, Refusal, truncation_event

STATUSES = {
    Code.INVALID_JSON: 400,
    Code.MISSING_MODEL: 400,
    Code.INVALID_FIELD: 400,
    Code.MALFORMED_REQUEST: 400,
    Code.CONTEXT_LENGTH_EXCEEDED: 400,
    Code.UNSUPPORTED_CAPABILITY: 400,
    Code.MODEL_NOT_FOUND: 404,
    Code.NOT_FOUND: 404,
    Code.METHOD_NOT_ALLOWED: 405,
    Code.BODY_TIMEOUT: 408,
    Code.BODY_TOO_LARGE: 413,
    Code.UNSUPPORTED_MEDIA_TYPE: 415,
    Code.EXPECTATION_FAILED: 417,
    Code.INVALID_API_KEY: 401,
    Code.MODEL_NOT_ALLOWED: 403,
    Code.REQUESTS_PER_MINUTE: 429,
    Code.TOKENS_PER_MINUTE: 429,
    Code.CONCURRENT_REQUESTS: 429,
    Code.BUDGET_EXHAUSTED: 429,
    Code.AUTH_UNAVAILABLE: 503,
    Code.HOUSE_AWAY: 503,
    Code.OVERLOADED: 429,
    Code.HEADERS_TOO_LARGE: 431,
    Code.INTERNAL: 500,
    Code.UPSTREAM_UNREACHABLE: 502,
    Code.UPSTREAM_AUTH_FAILED: 502,
    Code.STREAM_TRUNCATED: 502,
    Code.MODEL_LOADING: 503,
    Code.LOAD_FAILED: 503,
    Code.NO_ENDPOINTS: 503,
    Code.DEADLINE_EXCEEDED: 503,
    Code.NO_OWNER_RETURNED: 503,
    Code.MEMORY_PRESSURE: 503,
    Code.TOO_MANY_CONNECTIONS: 503,
    Code.SHUTTING_DOWN: 503,
    Code.NO_FIRST_BYTE: 504,
    Code.HTTP_VERSION_NOT_SUPPORTED: 505,
}


@pytest.mark.parametrize("code", list(Code))
def test_every_code_has_a_whole_body(code):
    answer = Refusal(code).answer("req-1")
    error = orjson.loads(answer.body)["error"]
    assert list(error) == ["message", "type", "param", "code", "request_id"]
    assert error["code"] == code.value
    assert error["request_id"] == "req-1"
    assert error["message"].endswith(".")
    assert answer.content_type == b"application/json"


def test_every_code_is_in_the_table():
    assert STATUSES.keys() == set(Code)


@pytest.mark.parametrize(("code", "status"), STATUSES.items())
def test_code_has_its_status(code, status):
    assert Refusal(code).status == status


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, "invalid_request_error"), (502, "upstream_error"), (503, "unavailable_error")],
)
def test_kind_of_an_error_follows_from_who_is_to_blame(status, kind):
    for code, its_status in STATUSES.items():
        if its_status == status:
            error = orjson.loads(Refusal(code).body("r"))["error"]
            assert error["type"] == kind


def test_time_to_wait_and_allowed_methods_are_header_fields():
    answer = Refusal(Code.NO_ENDPOINTS, retry_after_s=7, allow="GET").answer("r")
    assert answer.fields == ((b"retry-after", b"7"), (b"allow", b"GET"))
    assert Refusal(Code.NO_ENDPOINTS).answer("r").fields == ()


def test_broken_stream_is_told_in_one_event_that_first_ends_an_open_one():
    event = truncation_event("req-1")
    before, data, after = event.partition(b"data: ")
    assert (before, data) == (b"\n\n", b"data: ")
    assert after.endswith(b"\n\n")
    error = orjson.loads(after)["error"]
    assert (error["type"], error["code"]) == ("upstream_error", "stream_truncated")
