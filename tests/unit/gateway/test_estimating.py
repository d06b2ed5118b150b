"""How long a prompt is, roughly, and what it needs."""

from __future__ import annotations

import json

import pytest

from llmgw.gateway.estimating import estimate_tokens, most_tokens, needs

IMAGE = {"type": "image_url", "image_url": {"url": "http://a/b"}}


def chat(content, **fields):
    return json.dumps({"messages": [{"role": "user", "content": content}], **fields}).encode()


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        pytest.param(chat("x" * 40_000), 10_001, id="the whole text, not its head"),
        pytest.param(chat([IMAGE]), 86, id="an image is not nothing"),
        pytest.param(chat([{"type": "text", "text": "x" * 400}, IMAGE]), 187, id="parts"),
        pytest.param(chat("é" * 400), 201, id="bytes, not letters"),
        pytest.param(json.dumps({"prompt": "x" * 400}).encode(), 100, id="prompt"),
        pytest.param(json.dumps({"prompt": [7] * 100}).encode(), 100, id="tokens"),
        pytest.param(json.dumps({"input": ["x" * 400, "x" * 40]}).encode(), 100, id="longest"),
        pytest.param(b"[]", 0, id="no object"),
        pytest.param(b"{", 0, id="no JSON"),
        pytest.param(b'{"messages":[[1],{"content":null}],"input":[]}', 0, id="odd"),
    ],
)
def test_estimate_counts_everything_that_the_model_reads(body, tokens):
    assert estimate_tokens(body) == tokens
    assert most_tokens(len(body)) >= tokens


def test_tools_are_read_too():
    assert estimate_tokens(chat("x", tools=[{"name": "y" * 400}])) > 100


def test_deep_nesting_is_no_fault():
    deep = b'{"messages":[{"content":' + b"[" * 900 + b"]" * 900 + b"}]}"
    assert estimate_tokens(deep) == 0


def test_tools_nested_deeper_than_orjson_writes_are_no_fault():
    deep = b'{"tools":' + b"[" * 900 + b'"' + b"x" * 400 + b'"' + b"]" * 900 + b"}"
    assert estimate_tokens(deep) == 100


@pytest.mark.parametrize(
    ("body", "needed"),
    [
        (chat("image and tools"), set()),
        (chat("x", tools=[]), set()),
        (chat("x", tools=[{}]), {"tools"}),
        (chat([IMAGE]), {"vision"}),
        (chat([IMAGE], tools=[{}]), {"tools", "vision"}),
    ],
    ids=["words", "no tools", "tools", "image", "both"],
)
def test_needs_are_what_is_there_and_not_what_is_spoken_of(body, needed):
    assert needs(body) == needed
