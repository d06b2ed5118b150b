"""Between a client and a real llama.cpp not a byte of a body is changed: tools, JSON, streams."""

from __future__ import annotations

import json

import httpx
import openai
import pytest

from tests.fakes import tiny_gguf
from tests.fakes.deployment import Deployment, llmgw
from tests.fakes.engines import EngineProcess, free_port
from tests.fakes.wiretap import Wiretap

TOOL = {
    "type": "function",
    "function": {
        "name": "switch",
        "description": "Turns a lamp on or off. ä\u2028\U0001f4a1",
        "parameters": {
            "type": "object",
            "properties": {"lamp": {"enum": ["red", "blue"]}, "on": {"type": "boolean"}},
            "required": ["lamp", "on"],
            "additionalProperties": False,
        },
    },
}
SCHEMA = TOOL["function"]["parameters"]
MESSAGES = [{"role": "user", "content": "Turn it on!"}]
CHAT = {"model": "tiny", "messages": MESSAGES, "max_tokens": 200, "seed": 1}
WITH_TOOLS = CHAT | {
    "tools": [TOOL],
    "tool_choice": "required",
    "logit_bias": tiny_gguf.CALLS_AT_ONCE,
}
AS_JSON = {
    **CHAT,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "lamp", "strict": True, "schema": SCHEMA},
    },
}
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}


def written(asked):
    return json.dumps(asked).encode()


AWKWARD = (
    b'{ "model" : "tiny",\t"x_unknown": {"b": 1e-07, "b": -0.0, "big": 12345678901234567890123},\n'
    b' "messages":[{"content":"\\u00e4 \\ud83d\\ude00 / \\/ \xc3\xa4","role":"user"}],'
    b' "max_tokens":3 , "seed":1 }\r\n'
)


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    """The gateway's address, and what is said between it and a real llama.cpp."""
    root = tmp_path_factory.mktemp("line")
    model = tiny_gguf.write(root / "tools.gguf", template=tiny_gguf.TOOLS_TEMPLATE)
    port = free_port()
    words = ["llama-server", "--model", model, "--alias", "tiny", "--threads", "1"]
    words = llmgw(*words, "--host", "127.0.0.1", "--port", str(port), "--metrics")
    engine = EngineProcess(words, log=root / "engine.log", url=f"http://127.0.0.1:{port}")
    deployment = Deployment(root)
    try:
        engine.wait_ready()
        with Wiretap(port) as tap:
            facts = {"id": "a", "url": tap.url, "models": ["tiny"], "engine": "llamacpp"}
            deployment.server(endpoints=[facts], router={"scrape_interval": 0})
            yield deployment.url, tap
    finally:
        deployment.close()
        engine.close()


@pytest.fixture
def tapped(line):
    """The same, with nothing said so far."""
    url, tap = line
    tap.forget()
    return url, tap


@pytest.fixture
def client(tapped):
    url, _ = tapped
    with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=30) as made:
        yield made


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(written(CHAT), id="a chat"),
        pytest.param(written(CHAT | STREAMED), id="a stream"),
        pytest.param(written(WITH_TOOLS), id="tools"),
        pytest.param(written(WITH_TOOLS | STREAMED), id="tools in a stream"),
        pytest.param(written(AS_JSON), id="JSON"),
        pytest.param(written(AS_JSON | STREAMED), id="JSON in a stream"),
        pytest.param(AWKWARD, id="JSON that few would write so"),
    ],
)
def test_bodies_pass_byte_for_byte_in_both_directions(tapped, body):
    url, tap = tapped
    answer = httpx.post(f"{url}/v1/chat/completions", content=body, timeout=30, trust_env=False)
    assert answer.status_code == 200, answer.text
    assert answer.content
    assert tap.said() == (body, answer.content)


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings"])
def test_bodies_of_a_refusal_by_the_engine_pass_byte_for_byte_too(tapped, path):
    url, tap = tapped
    body = b'{"model":"tiny", "prompt":{"no":"prompt"}, "input":{"no":"input"}}'
    answer = httpx.post(f"{url}{path}", content=body, timeout=30, trust_env=False)
    assert answer.status_code >= 400
    assert tap.said() == (body, answer.content)


def test_stream_that_is_asked_for_its_usage_on_the_quiet_differs_in_that_alone(tapped):
    url, tap = tapped
    body = written(CHAT | {"stream": True})
    answer = httpx.post(f"{url}/v1/chat/completions", content=body, timeout=30, trust_env=False)
    asked, answered = tap.said()
    assert json.loads(asked) == CHAT | STREAMED
    [extra] = [event for event in events(answered) if b'"choices":[]' in event]
    assert [event for event in events(answered) if event != extra] == events(answer.content)


def events(body):
    return body.split(b"\n\n")


def test_the_openai_client_gets_a_call_of_its_tool(client):
    answer = client.chat.completions.create(**WITH_TOOLS)
    [choice] = answer.choices
    [call] = choice.message.tool_calls
    assert (choice.finish_reason, call.function.name) == ("tool_calls", "switch")
    assert_fits_schema(call.function.arguments)


def test_the_openai_client_puts_a_streamed_call_of_its_tool_together(client):
    with client.chat.completions.create(**WITH_TOOLS, **STREAMED) as stream:
        deltas = [chunk.choices[0].delta for chunk in stream if chunk.choices]
    calls = [call.function for delta in deltas for call in delta.tool_calls or ()]
    assert "".join(call.name or "" for call in calls) == "switch"
    assert_fits_schema("".join(call.arguments or "" for call in calls))


def test_the_openai_client_sends_a_tool_s_result_back(client):
    [call] = client.chat.completions.create(**WITH_TOOLS).choices[0].message.tool_calls
    said = {"role": "assistant", "content": "", "tool_calls": [call.model_dump()]}
    result = {"role": "tool", "tool_call_id": call.id, "content": "done"}
    asked = {**CHAT, "messages": [*MESSAGES, said, result], "max_tokens": 4, "tools": [TOOL]}
    assert client.chat.completions.create(**asked).usage.completion_tokens <= 4


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_the_openai_client_gets_json_that_fits_its_schema(client, is_stream):
    if is_stream:
        with client.chat.completions.create(**AS_JSON, **STREAMED) as stream:
            pieces = [chunk.choices[0].delta.content for chunk in stream if chunk.choices]
        assert_fits_schema("".join(piece or "" for piece in pieces))
    else:
        assert_fits_schema(client.chat.completions.create(**AS_JSON).choices[0].message.content)


def assert_fits_schema(text):
    read = json.loads(text)
    assert read.keys() == {"lamp", "on"}
    assert read["lamp"] in {"red", "blue"}
    assert isinstance(read["on"], bool)
