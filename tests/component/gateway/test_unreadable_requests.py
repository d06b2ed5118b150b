"""What two readers could read differently is refused with an answer, never guessed at."""

from __future__ import annotations

import pytest

from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import End, get, post

CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\n"


def case(raw, id_):
    return pytest.param(raw, id=id_)


MALFORMED = [
    case(
        CHAT + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "a length and chunks",
    ),
    case(
        CHAT + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "chunks and a length",
    ),
    case(CHAT + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "two lengths"),
    case(CHAT + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", "two equal lengths"),
    case(CHAT + b"Content-Length: 2, 2\r\n\r\n{}", "a list of lengths"),
    case(CHAT + b"Content-Length: -2\r\n\r\n{}", "a negative length"),
    case(CHAT + b"Content-Length: +2\r\n\r\n{}", "a length with a sign"),
    case(CHAT + b"Content-Length: 0x2\r\n\r\n{}", "a length in another base"),
    case(CHAT + b"Content-Length:\r\n\r\n{}", "an empty length"),
    case(CHAT + b"Content-Length: 99999999999999999999\r\n\r\n{}", "a length beyond 64 bits"),
    case(CHAT + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "a coding besides chunked"),
    case(CHAT + b"Transfer-Encoding: identity\r\n\r\n", "a coding that is none"),
    case(CHAT + b"Transfer-Encoding: chunked, identity\r\n\r\n", "chunked, and not last"),
    case(
        CHAT + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "chunked twice",
    ),
    case(CHAT + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "nearly chunked"),
    case(
        b"POST /v1/chat/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "chunks in HTTP/1.0",
    ),
    case(CHAT + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n", "no chunk size"),
    case(CHAT + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n", "a chunk too long"),
    case(CHAT + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n", "a chunk with a bare LF"),
    case(CHAT + b"Content-Length : 2\r\n\r\n{}", "a space before the colon"),
    case(CHAT + b"X-A: 1\n\r\n", "a bare LF after a field"),
    case(b"GET /health HTTP/1.1\nHost: x\n\n", "bare LFs everywhere"),
    case(CHAT + b"X-A: 1\r\n folded\r\n\r\n", "a folded field"),
    case(CHAT + b"X-A: \x00\r\n\r\n", "a NUL in a field"),
    case(CHAT + b"X\x01A: 1\r\n\r\n", "a control byte in a name"),
    case(CHAT + b": 1\r\n\r\n", "a field without a name"),
    case(b"GET /hea\x01lth HTTP/1.1\r\nHost: x\r\n\r\n", "a control byte in the path"),
    case(b"GET /he\xc3\xa4lth HTTP/1.1\r\nHost: x\r\n\r\n", "a raw byte above 127 in the path"),
    case(b"G@T /health HTTP/1.1\r\nHost: x\r\n\r\n", "no method"),
    case(b"get /health HTTP/1.1\r\nHost: x\r\n\r\n", "a method in lower case"),
    case(b"GET /health\r\n\r\n", "HTTP/0.9"),
    case(b"GET /health HTTP/3.0\r\nHost: x\r\n\r\n", "a version that is none"),
    case(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
    case(b"GET /health HTTP/1.1\r\n\r\n", "no host"),
    case(b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "two hosts"),
    case(b"GET /health HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "two equal hosts"),
    case(get("/v1/../health"), "a path that climbs"),
    case(get("/v1/%2e%2e/health"), "a path that climbs in disguise"),
    case(get("/./health"), "a path with a dot"),
    case(get("//health"), "an empty segment"),
    case(get("/v1/models/a%2Fb"), "a hidden slash"),
    case(get("ftp://gateway/health"), "another scheme"),
    case(get("health"), "a path without a slash"),
]


@pytest.mark.parametrize("raw", MALFORMED)
async def test_ambiguous_request_gets_a_400_and_the_connection_ends(stage, raw):
    engine = await stage.engine()
    client = await stage.send(raw)
    answer = await client.answer()
    assert (answer.status, answer.code) == (400, "malformed_request")
    assert answer["connection"] == "close"
    assert answer.error["type"] == "invalid_request_error"
    assert answer.error["request_id"] == answer["x-request-id"]
    assert await client.end() is End.CLOSED
    assert engine.connections == 0


async def test_other_version_of_http_is_a_505(stage):
    client = await stage.send(b"GET /health HTTP/2.0\r\nHost: x\r\n\r\n")
    answer = await client.answer()
    assert (answer.status, answer.code) == (505, "http_version_not_supported")


async def test_bytes_after_an_ambiguous_request_are_never_served(stage):
    engine = await stage.engine()
    smuggled = post(ASK)
    client = await stage.send(CHAT + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + smuggled)
    assert (await client.answer()).status == 400
    client.send(smuggled)
    assert await client.end() is End.CLOSED
    assert client.raw.count(b"HTTP/1.1 ") == 1
    assert engine.connections == 0


async def test_requests_before_an_ambiguous_one_are_answered_first(stage):
    await stage.engine()
    client = await stage.send(post(ASK) + get("/health") + b"GET /health HTTP/1.1\r\n\r\n")
    assert [(await client.answer()).status for _ in range(3)] == [200, 200, 400]
    assert await client.end() is End.CLOSED


async def test_refusal_is_read_by_a_client_that_goes_on_sending(stage):
    stage.tune(limits={"max_body_bytes": 1024})
    await stage.engine()
    client = await stage.send(CHAT + b"Content-Length: 9000000\r\n\r\n")
    for _ in range(100):
        client.send(bytes(65536))
    answer = await client.answer()
    assert (answer.status, answer.code, answer.is_complete) == (413, "body_too_large", True)


@pytest.mark.parametrize("path", ["http://evil.example/health", "HTTP://evil.example/health"])
async def test_of_an_absolute_target_only_the_path_counts(stage, path):
    assert (await (await stage.send(get(path))).answer()).json == {"status": "ok"}


async def test_absolute_target_of_a_model_request_reaches_the_engine_as_a_path(stage):
    engine = await stage.engine()
    answer = await stage.ask(path="http://evil.example/v1/chat/completions?a=b")
    assert answer.status == 200
    assert engine.requests[0].line == b"POST /v1/chat/completions HTTP/1.1"
    assert engine.requests[0].fields[b"host"] == [f"127.0.0.1:{engine.port}".encode()]


@pytest.mark.parametrize("target", [b"evil.example:443", b"http://evil.example/health"])
async def test_connect_is_refused_and_opens_nothing(stage, target):
    client = await stage.send(b"CONNECT " + target + b" HTTP/1.1\r\nHost: evil.example\r\n\r\n")
    answer = await client.answer()
    assert answer.status in {400, 405}
    client.send(get("/health"))
    assert await client.end() is End.CLOSED
    assert client.raw.count(b"HTTP/1.1 ") == 1


UPGRADE = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")


async def test_wish_to_upgrade_is_ignored_and_the_request_served(stage):
    engine = await stage.engine()
    client = await stage.send(post(ASK, *UPGRADE))
    answer = await client.answer()
    assert answer.status == 200
    assert engine.requests[0].json == ASK
    assert b"upgrade" not in engine.requests[0].raw.lower()
    client.send(get("/health", *UPGRADE) + get("/health"))
    assert [(await client.answer()).status for _ in range(2)] == [200, 200]


async def test_head_beyond_its_bound_is_a_431(stage):
    stage.tune(limits={"max_header_bytes": 4096})
    engine = await stage.engine()
    client = await stage.send(post(ASK, f"X-Long: {'a' * 5000}"))
    answer = await client.answer()
    assert (answer.status, answer.code) == (431, "headers_too_large")
    assert await client.end() is End.CLOSED
    assert engine.connections == 0


@pytest.mark.parametrize(
    "piece", [b"GET /" + b"a" * 9000, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 900]
)
async def test_head_without_an_end_is_a_431_once_it_passes_its_bound(stage, piece):
    stage.tune(limits={"max_header_bytes": 4096})
    client = await stage.send(piece)
    assert (await client.answer()).status == 431


async def test_head_within_its_bound_passes_though_the_body_came_with_it(stage):
    stage.tune(limits={"max_header_bytes": 4096})
    engine = await stage.engine()
    body = {**ASK, "filler": "x" * 20000}
    assert (await stage.ask(body, f"X-Long: {'a' * 3000}")).status == 200
    assert engine.requests[0].json == body


async def test_bound_of_the_head_holds_for_each_request_of_a_connection(stage):
    """What came before, bodies included, counts for nothing."""
    engine = await stage.engine()
    client = await stage.client()
    body = {**ASK, "filler": "x" * 1_000_000}
    for _ in range(3):
        client.send(post(body))
        assert (await client.answer()).status == 200
    assert len(engine.requests) == 3


@pytest.mark.parametrize("is_chunked", [False, True], ids=["announced", "in chunks"])
async def test_body_beyond_its_bound_is_a_413(stage, is_chunked):
    stage.tune(limits={"max_body_bytes": 1024})
    engine = await stage.engine()
    if is_chunked:
        raw = CHAT + b"Transfer-Encoding: chunked\r\n\r\n401\r\n" + b"x" * 0x401 + b"\r\n0\r\n\r\n"
    else:
        raw = post(b"x" * 1025)
    client = await stage.send(raw)
    answer = await client.answer()
    assert (answer.status, answer.code) == (413, "body_too_large")
    assert engine.connections == 0


async def test_body_of_exactly_the_bound_passes(stage):
    stage.tune(limits={"max_body_bytes": 1024})
    await stage.engine()
    body = b'{"model":"m","x":"%b"}'
    body %= b"x" * (1024 - len(body) + 2)
    assert len(body) == 1024
    assert (await stage.ask(body)).status == 200


async def test_framing_of_a_body_has_a_bound_too(stage):
    stage.tune(limits={"max_body_bytes": 1024, "max_header_bytes": 4096})
    client = await stage.send(CHAT + b"Transfer-Encoding: chunked\r\n\r\n")
    client.send(b"1;%b\r\nx\r\n" % (b"e" * 10000) * 100)
    assert (await client.answer()).status == 413


async def test_chunked_body_reaches_the_engine_whole_and_with_a_length(stage):
    engine = await stage.engine()
    body = b'{"model":"m","n":1}'
    pieces = b"".join(b"%x\r\n%b\r\n" % (1, body[i : i + 1]) for i in range(len(body)))
    client = await stage.send(
        CHAT + b"Transfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\nX-Trailer: 1\r\n\r\n"
    )
    assert (await client.answer()).status == 200
    assert engine.requests[0].body == body
    assert engine.requests[0].fields[b"content-length"] == [b"%d" % len(body)]
    assert b"transfer-encoding" not in engine.requests[0].fields


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"", "invalid_json", None),
        (b"{", "invalid_json", None),
        (b"[]", "invalid_json", None),
        (b'"m"', "invalid_json", None),
        (b'{"model":"m"} x', "invalid_json", None),
        (b'{"messages":[]}', "missing_model", "model"),
        (b'{"model":""}', "missing_model", "model"),
        (b'{"model":7}', "invalid_field", "model"),
        (b'{"model":"m","stream":"yes"}', "invalid_field", "stream"),
    ],
)
@pytest.mark.parametrize("size", [0, 70_000], ids=["small", "large"])
async def test_body_that_cannot_be_routed_is_a_400_that_says_why(stage, body, code, param, size):
    engine = await stage.engine()
    client = await stage.send(post(body + b" " * size))
    answer = await client.answer()
    assert (answer.status, answer.code, answer.error["param"]) == (400, code, param)
    client.send(get("/health"))
    assert (await client.answer()).status == 200, "the connection goes on"
    assert engine.connections == 0


async def test_compressed_body_is_a_415(stage):
    await stage.engine()
    answer = await stage.ask(b"\x1f\x8b", "Content-Encoding: gzip")
    assert (answer.status, answer.code) == (415, "unsupported_media_type")


async def test_unknown_path_is_a_404_and_another_method_a_405_with_allow(stage):
    answer = await (await stage.send(get("/v1/nothing"))).answer()
    assert (answer.status, answer.code) == (404, "not_found")
    answer = await (await stage.send(get("/v1/chat/completions"))).answer()
    assert (answer.status, answer.code) == (405, "method_not_allowed")
    assert answer["allow"] == "POST, OPTIONS"
    answer = await (await stage.send(get("/v1/models", method="DELETE"))).answer()
    assert (answer.status, answer["allow"]) == (405, "GET, HEAD, OPTIONS")


async def test_options_names_the_methods_of_a_path(stage):
    client = await stage.send(get("/v1/chat/completions", method="OPTIONS") + get("/health"))
    answer = await client.answer()
    assert (answer.status, answer["allow"], answer.body) == (204, "POST, OPTIONS", b"")
    assert (await client.answer()).status == 200


async def test_options_of_the_server_as_a_whole_are_answered_and_no_other_method_has_them(stage):
    """RFC 9110 §9.3.7."""
    client = await stage.send(get("*", method="OPTIONS") + get("/health"))
    answer = await client.answer()
    assert (answer.status, answer["allow"], answer.body) == (204, "GET, HEAD, POST, OPTIONS", b"")
    assert (await client.answer()).status == 200
    assert (await (await stage.send(get("*"))).answer()).status == 400


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/health", "/"])
async def test_answer_without_a_body_announces_none(stage, path):
    """RFC 9110 §8.6: a 204 has no length either."""
    client = await stage.send(get(path, method="OPTIONS"))
    answer = await client.answer()
    assert (answer.status, answer["content-length"], answer["content-type"]) == (204, None, None)
