"""Which fields pass in which direction: no key of a client, no word about an engine."""

from __future__ import annotations

import re

import pytest

from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import get, post
from tests.fakes.upstream import CHUNKED, END, chunk, stream, whole

MADE = re.compile(r"req-[0-9a-f]{24}")

NEVER_TO_ENGINE = (
    "Authorization: Bearer sk-client",
    "X-Api-Key: sk-client",
    "Api-Key: sk-client",
    "Cookie: session=sk-client",
    "Proxy-Authorization: Basic sk-client",
    "Proxy-Connection: keep-alive",
    "Forwarded: for=sk-client",
    "X-Forwarded-For: sk-client",
    "X-Forwarded-Host: sk-client",
    "X-Real-IP: sk-client",
    "X-LLMGW-Principal: sk-client",
    "X-LLMGW-Peer: sk-client",
    "x-llmgw-hop: sk-client",
    "X-Session-Id: sk-client",
    "OpenAI-Organization: sk-client",
    "User-Agent: sk-client",
    "Keep-Alive: timeout=sk-client",
    "TE: trailers",
    "Trailer: X-Sum",
    "Via: 1.1 sk-client",
    "Range: bytes=0-1",
    "If-None-Match: sk-client",
    "Accept-Encoding: gzip, br",
    "X-Anything: sk-client",
)


async def test_engine_gets_nothing_of_a_client_but_what_it_needs(stage):
    engine = await stage.engine()
    passed = (
        "Content-Type: application/json; charset=utf-8",
        "Accept: text/event-stream",
        "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "Tracestate: a=b",
    )
    answer = await stage.ask(ASK, *NEVER_TO_ENGINE, *passed, "Connection: keep-alive")
    assert answer.status == 200
    [request] = engine.requests
    assert b"sk-client" not in request.raw
    assert request.line == b"POST /v1/chat/completions HTTP/1.1"
    assert request.fields == {
        b"host": [f"127.0.0.1:{engine.port}".encode()],
        b"accept-encoding": [b"identity"],
        b"x-request-id": [answer["x-request-id"].encode()],
        b"content-length": [b"%d" % len(request.body)],
    } | {
        name.lower().encode(): [value.encode()]
        for name, _, value in (field.partition(": ") for field in passed)
    }


async def test_field_that_the_client_names_as_its_connection_s_stays_there(stage):
    engine = await stage.engine()
    await stage.ask(ASK, "Connection: Accept, x-secret, close", "Accept: a/b", "X-Secret: 1")
    assert b"accept" not in engine.requests[0].fields
    assert b"x-secret" not in engine.requests[0].fields


@pytest.mark.parametrize("key", ["", "sk-engine"])
async def test_endpoint_s_own_key_reaches_it_and_the_client_s_never(stage, key):
    engine = await stage.engine(api_key=key)
    answer = await stage.ask(ASK, "Authorization: Bearer sk-client")
    expected = [b"Bearer sk-engine"] if key else None
    assert engine.requests[0].fields.get(b"authorization") == expected
    assert b"sk-client" not in engine.requests[0].raw
    assert "sk-engine" not in str(answer.fields)


async def test_endpoint_s_path_precedes_that_of_the_request(stage):
    engine = await stage.engine()
    stage.change_endpoint("e1", url=f"{engine.url}/api")
    await stage.ask(path="/v1/embeddings?a=b")
    assert engine.requests[0].line == b"POST /api/v1/embeddings HTTP/1.1"


@pytest.mark.parametrize("answer", [whole, None], ids=["whole", "chunks"])
async def test_client_gets_the_engine_s_fields_but_those_of_the_connection(stage, answer):
    fields = (
        "X-Engine: kept",
        "X-Twice: 1",
        "X-Twice: 2",
        "Connection: X-Hop, keep-alive",
        "X-Hop: dropped",
        "Keep-Alive: timeout=5",
        "Proxy-Authenticate: dropped",
        "Proxy-Connection: dropped",
        "Trailer: dropped",
        "Upgrade: dropped",
        "Server: dropped",
        "Set-Cookie: dropped",
        "X-Request-Id: dropped",
        "X-LLMGW-Served-Model: dropped",
        "X-LLMGW-Attempts: dropped",
        "X-LLMGW-Queue-Ms: dropped",
        "Access-Control-Allow-Origin: dropped",
        "Access-Control-Allow-Credentials: dropped",
    )
    head_, _, rest = (whole() if answer else CHUNKED + chunk(b"x") + END).partition(b"\r\n\r\n")
    extra = "\r\n".join(fields).encode()
    await stage.engine(answer=head_ + b"\r\n" + extra + b"\r\n\r\n" + rest)
    got = await stage.ask(ASK, "X-Request-Id: mine")
    assert "dropped" not in str(got.fields)
    assert got["x-engine"] == "kept"
    assert [value for name, value in got.fields if name == "x-twice"] == ["1", "2"]
    assert got["connection"] is None
    assert got["x-request-id"] == "mine"
    assert got["x-llmgw-served-model"] == "m"
    assert got["x-llmgw-attempts"] == "1"


async def test_events_say_that_nobody_may_hold_them_back(stage):
    answer = stream("a").replace(
        b"\r\n\r\n", b"\r\nCache-Control: max-age=9\r\nX-Accel-Buffering: yes\r\n\r\n", 1
    )
    await stage.engine(answer=answer)
    got = await stage.ask()
    assert got["content-type"] == "text/event-stream"
    assert got["cache-control"] == "no-cache"
    assert got["x-accel-buffering"] == "no"


async def test_other_answers_keep_what_the_engine_says_of_caching(stage):
    await stage.engine(answer=whole(b"a", "Cache-Control: max-age=9"))
    got = await stage.ask()
    assert (got["cache-control"], got["x-accel-buffering"]) == ("max-age=9", None)


async def test_answers_and_failures_tell_attempts_and_the_wait_before_the_first(stage):
    stage.tune(dispatch={"max_attempts": 2})
    engine = await stage.engine()
    for scripts, status, attempts in (
        ([whole(b"a")], 200, "1"),
        ([stream("a")], 200, "1"),
        ([whole(status=500), whole(b"a")], 200, "2"),
        ([whole(status=500), whole(status=401)], 502, "2"),
    ):
        for script in scripts:
            engine.once(script)
        answer = await stage.ask()
        assert (answer.status, answer["x-llmgw-attempts"]) == (status, attempts)
        assert 0 <= int(answer["x-llmgw-queue-ms"]) < 200, "a pause between attempts is no queue"
    stage.drop_endpoint("e1")
    answer = await stage.ask()
    assert (answer.code, answer["x-llmgw-attempts"]) == ("no_endpoints", "0")
    assert int(answer["x-llmgw-queue-ms"]) >= 0
    models = await (await stage.send(get("/v1/models"))).answer()
    assert [name for name, _ in models.fields if name.startswith("x-llmgw")] == []


# Names of models


async def test_name_of_the_model_that_answered_is_on_the_wire(stage):
    """Also when the client asked by another name, and in the head of a stream."""
    engine = await stage.engine(answer=stream("a"))
    stage.list_model("m", aliases=("gpt-4",))
    answer = await stage.ask({"model": "gpt-4", "stream": True})
    assert answer["x-llmgw-served-model"] == "m"
    assert engine.requests[0].json["model"] == "m"


async def test_engine_hears_the_name_that_it_knows(stage):
    engine = await stage.engine(upstream_model="org/theirs")
    body = b'{ "model" : "m", "n":1.50, "stop":["\\u00e9"], "unknown":{"a":[1,2]} }'
    answer = await stage.ask(body)
    assert answer["x-llmgw-served-model"] == "m"
    sent = engine.requests[0]
    assert sent.json == {"model": "org/theirs", "n": 1.5, "stop": ["é"], "unknown": {"a": [1, 2]}}
    assert b'"n":1.50' in sent.body, "every other value keeps its bytes"


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m"}',
        b' {"messages" : [ {"content":"\\u00e4 \xc3\xa4"} ],\n"model":"m", "x":1e400}\n',
        b'{"model":"m","pad":"' + b"x" * 40000 + b'","unknown_field":{"deep":[[[]]]}}',
    ],
    ids=["short", "odd", "large"],
)
async def test_body_that_needs_no_change_reaches_the_engine_byte_for_byte(stage, body):
    engine = await stage.engine()
    assert (await stage.ask(body)).status == 200
    assert engine.requests[0].body == body


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"])
async def test_every_path_of_models_reaches_the_engine(stage, path):
    engine = await stage.engine()
    assert (await stage.ask(path=path)).status == 200
    assert engine.requests[0].line == f"POST {path} HTTP/1.1".encode()


# Request ids


@pytest.mark.parametrize("chosen", ["a", "A-b_c.9", "x" * 128])
async def test_request_id_of_the_client_is_kept_and_reaches_the_engine(stage, chosen):
    engine = await stage.engine()
    answer = await stage.ask(ASK, f"X-Request-Id: {chosen}")
    assert answer["x-request-id"] == chosen
    assert engine.requests[0].fields[b"x-request-id"] == [chosen.encode()]


@pytest.mark.parametrize(
    "fields",
    [
        (),
        ("X-Request-Id:",),
        ("X-Request-Id: " + "x" * 129,),
        ("X-Request-Id: a b",),
        ("X-Request-Id: ../../etc",),
        ("X-Request-Id: a\xe9",),
        ("X-Request-Id: a", "X-Request-Id: b"),
    ],
    ids=["none", "empty", "long", "blank", "path", "not ascii", "two"],
)
async def test_request_id_that_is_none_is_replaced(stage, fields):
    engine = await stage.engine()
    body = b'{"model":"m"}'
    lines = ["POST /v1/chat/completions HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
    client = await stage.send("\r\n".join([*lines, *fields, "", ""]).encode("latin-1") + body)
    answer = await client.answer()
    assert MADE.fullmatch(answer["x-request-id"])
    assert engine.requests[0].fields[b"x-request-id"] == [answer["x-request-id"].encode()]


async def test_request_id_is_on_every_answer_and_in_every_error(stage):
    stage.tune(dispatch={"max_attempts": 1})
    await stage.engine(answer=whole(b"no", status=401))
    for request in (
        post(ASK, "X-Request-Id: mine"),
        post(b"{", "X-Request-Id: mine"),
        get("/nothing", "X-Request-Id: mine"),
        post({"model": "unknown"}, "X-Request-Id: mine"),
    ):
        answer = await (await stage.send(request)).answer()
        assert answer["x-request-id"] == "mine"
        assert answer.error["request_id"] == "mine"
        assert answer.error.keys() == {"message", "type", "param", "code", "request_id"}
    for path in ("/health", "/ready", "/v1/models", "/"):
        answer = await (await stage.send(get(path, "X-Request-Id: mine"))).answer()
        assert answer["x-request-id"] == "mine"


async def test_made_request_ids_differ(stage):
    client = await stage.send(get("/health") * 30)
    assert len({(await client.answer())["x-request-id"] for _ in range(30)}) == 30
