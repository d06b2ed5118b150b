"""What agent and gateway rely on in every engine: one suite for the simulated and the real."""

import contextlib
import json
import signal
import time
from pathlib import Path

import httpx
import pytest

from tests.contract.engine.conftest import MODEL

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
BODIES = {
    CHAT: {"model": MODEL, "messages": [{"role": "user", "content": "one two three"}]},
    COMPLETIONS: {"model": MODEL, "prompt": "one two three"},
}
routes = pytest.mark.parametrize("route", [CHAT, COMPLETIONS], ids=["chat", "completion"])


def _ask(engine, route, **fields):
    body = {**BODIES[route], "max_tokens": 6, "temperature": 0, **fields}
    return httpx.post(f"{engine.url}{route}", json=body, timeout=20)


def _events(response):
    data = [line for line in response.text.split("\n\n") if line.startswith("data: ")]
    assert data[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in data[:-1]]


def _text(choice):
    piece = choice.get("delta") or choice.get("message")
    return (piece.get("content") or "") if piece else choice.get("text", "")


def test_health_turns_from_no_answer_or_503_to_200_and_stays_so(kind):
    engine = kind.start(is_awaited=False)
    if kind.name == "sim":
        engine.wait_listening()
    seen = []
    deadline = time.monotonic() + 20
    while 200 not in seen:
        assert time.monotonic() < deadline, engine.output
        seen.append(engine.health())
    assert set(seen[:-1]) <= {0, 503}
    assert _ask(engine, CHAT).status_code == 200
    assert [engine.health() for _ in range(3)] == [200] * 3


def test_its_model_is_listed_under_the_alias(engine):
    listed = httpx.get(f"{engine.url}/v1/models").json()
    assert [model["id"] for model in listed["data"]] == [MODEL]


@routes
def test_a_whole_answer_has_text_a_finish_reason_and_usage(engine, route):
    answer = _ask(engine, route).raise_for_status().json()
    choice = answer["choices"][0]
    assert _text(choice)
    assert choice["finish_reason"] == "length"
    assert answer["model"] == MODEL
    usage = answer["usage"]
    assert usage["completion_tokens"] == 6
    assert usage["total_tokens"] == usage["prompt_tokens"] + 6 > 6


@routes
def test_a_stream_says_the_same_as_a_whole_answer(engine, route):
    whole = _ask(engine, route).json()
    streamed = _ask(engine, route, stream=True)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    choices = [c for e in _events(streamed) for c in e["choices"]]
    # llama.cpp leaves half a character at the end out of a stream.
    text = "".join(map(_text, choices)).rstrip("\ufffd")
    assert text == _text(whole["choices"][0]).rstrip("\ufffd") != ""
    assert choices[-1]["finish_reason"] == "length"


def test_a_chat_stream_has_no_usage_unless_it_is_asked_for(engine):
    events = _events(_ask(engine, CHAT, stream=True))
    assert not any(e.get("usage") for e in events)
    asked = _events(_ask(engine, CHAT, stream=True, stream_options={"include_usage": True}))
    assert [bool(e.get("usage")) for e in asked] == [False] * (len(asked) - 1) + [True]
    assert asked[-1]["choices"] == []


@routes
def test_usage_that_is_asked_for_comes_in_the_last_event(engine, route):
    events = _events(_ask(engine, route, stream=True, stream_options={"include_usage": True}))
    assert events[-1]["usage"]["completion_tokens"] == 6
    assert events[-1]["usage"]["prompt_tokens"] > 0


def test_embeddings_are_served_beside_chat(kind):
    engine = kind.start(*kind.embedding_flags)
    body = {"model": MODEL, "input": ["a", "b"]}
    answer = httpx.post(f"{engine.url}/v1/embeddings", json=body, timeout=20).json()
    one, other = (entry["embedding"] for entry in answer["data"])
    assert len(one) == len(other) > 8
    assert one != other
    assert answer["usage"]["prompt_tokens"] > 0
    assert _ask(engine, CHAT).status_code == 200


def test_a_body_that_is_not_json_is_refused_with_a_message(engine):
    answer = httpx.post(f"{engine.url}{CHAT}", content=b"{", timeout=20)
    assert 400 <= answer.status_code < 600
    assert answer.json()["error"]["message"]


def test_metrics_count_tokens_and_say_how_busy_it_is(kind):
    engine = kind.start()
    _ask(engine, CHAT)
    assert engine.metric(kind.generated_tokens) == 6
    assert engine.metric(kind.prompt_tokens) > 0
    assert engine.metric(kind.running) == 0
    assert engine.metric(kind.waiting) == 0


def test_a_stream_whose_client_left_is_freed(kind):
    engine = kind.start()
    body = {**BODIES[COMPLETIONS], "max_tokens": 3000, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{engine.url}{COMPLETIONS}", json=body, timeout=20) as stream:
        next(stream.iter_raw())
    engine.wait_metric(kind.running, 0, timeout_s=3)
    assert engine.metric(kind.waiting) == 0
    assert engine.health() == 200, "it is freed and not broken"


def test_it_ends_when_it_is_told_to(engine):
    engine.send(signal.SIGTERM)
    assert engine.wait(timeout_s=5) == 0
    assert engine.health() == 0


def test_it_listens_only_where_it_was_told_to(engine):
    held = set()
    for descriptor in Path(f"/proc/{engine.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            held.add(str(descriptor.readlink()))
    tables = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    rows = [line.split() for line in tables.splitlines()]
    listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in held]
    assert listening == [f"0100007F:{engine.port:04X}"]
