"""Which requests the sim engine takes, and how long their answers are."""

import json

import pytest

from llmgw.errors import Invalid
from llmgw.simulator import asks
from llmgw.simulator.asks import Shape


def _chat(**fields):
    body = {"model": "m", "messages": [{"role": "user", "content": "one two"}], **fields}
    return asks.generation(Shape.CHAT, json.dumps(body).encode())


def test_every_word_of_a_conversation_is_a_token():
    messages = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": [{"type": "text", "text": "a b c"}, {"type": "image_url"}]},
        {"role": "assistant", "content": None},
    ]
    assert _chat(messages=messages).prompt_tokens == 6


@pytest.mark.parametrize(
    ("fields", "own", "expected"),
    [
        pytest.param({}, None, (16, "stop"), id="nothing said"),
        pytest.param({"max_tokens": 5}, None, (5, "length"), id="bound of the request"),
        pytest.param({"max_completion_tokens": 4, "max_tokens": 9}, None, (4, "length"), id="new"),
        pytest.param({}, 40, (40, "stop"), id="end of the engine"),
        pytest.param({"max_tokens": 5}, 40, (5, "length"), id="bound before the end"),
        pytest.param({"max_tokens": 50}, 40, (40, "stop"), id="end before the bound"),
        pytest.param({"max_tokens": 50, "ignore_eos": True}, 40, (50, "length"), id="no end"),
    ],
)
def test_an_answer_ends_at_its_bound_or_by_itself(fields, own, expected):
    assert _chat(**fields).length(own) == expected


@pytest.mark.parametrize(
    ("fields", "is_stream", "has_usage"),
    [
        pytest.param({}, False, False, id="whole"),
        pytest.param({"stream": True}, True, False, id="stream"),
        pytest.param(
            {"stream": True, "stream_options": {"include_usage": True}}, True, True, id="usage"
        ),
        pytest.param({"stream": True, "stream_options": None}, True, False, id="null"),
    ],
)
def test_usage_is_streamed_only_when_it_is_asked_for(fields, is_stream, has_usage):
    ask = _chat(**fields)
    assert (ask.is_stream, ask.has_usage) == (is_stream, has_usage)


@pytest.mark.parametrize(
    "prompt",
    [
        pytest.param("a b c", id="text"),
        pytest.param(["a b c"], id="list"),
        pytest.param([1, 2, 3], id="ids"),
        pytest.param([[1, 2, 3]], id="list of ids"),
    ],
)
def test_a_prompt_is_text_or_ids(prompt):
    body = json.dumps({"model": "m", "prompt": prompt}).encode()
    assert asks.generation(Shape.COMPLETION, body).prompt_tokens == 3


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{", id="no json"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b"{}", id="no messages"),
        pytest.param(b'{"messages":[]}', id="empty"),
        pytest.param(b'{"messages":["hi"]}', id="no message"),
        pytest.param(b'{"messages":[{"content":5}]}', id="content"),
        pytest.param(b'{"messages":[{"content":"a"}],"max_tokens":0}', id="bound"),
        pytest.param(b'{"messages":[{"content":"a"}],"n":2}', id="choices"),
        pytest.param(b'{"messages":[{"content":"a"}],"model":7}', id="model"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused(body):
    with pytest.raises(Invalid):
        asks.generation(Shape.CHAT, body)


@pytest.mark.parametrize("body", [b"{}", b'{"input":[]}', b'{"input":"a","dimensions":0}'])
def test_embeddings_need_text_and_sensible_dimensions(body):
    with pytest.raises(Invalid):
        asks.embedding(body)
