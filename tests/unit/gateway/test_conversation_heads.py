"""The head of a conversation is its first words, bounded, however the JSON is written."""

from __future__ import annotations

import json

import pytest

from llmgw.gateway.heads import head_of


def head(body, most_bytes=2048):
    return head_of(json.dumps(body).encode(), most_bytes)


def chat(*messages):
    return {"model": "m", "messages": [{"role": role, "content": text} for role, text in messages]}


def test_roles_and_texts_follow_each_other():
    said = head(chat(("system", "Be kind."), ("user", "Hi")))
    assert said == b"system\x1fBe kind.\x1euser\x1fHi\x1e"


def test_next_turn_begins_like_the_one_before():
    first = [("system", "Be kind."), ("user", "Hi")]
    assert head(chat(*first, ("assistant", "Hello"))).startswith(head(chat(*first)))


def test_order_of_fields_and_spaces_do_not_matter():
    one = b'{"model":"m","messages":[{"role":"user","content":"Hi"}]}'
    other = b'{ "messages" : [ { "content" : "\\u0048i", "role" : "user" } ], "model" : "m" }'
    assert head_of(one, 2048) == head_of(other, 2048)


def test_head_is_bounded_however_long_the_conversation_is():
    assert len(head(chat(*[("user", "x" * 50_000)] * 3))) == 2048
    assert len(head(chat(*[("user", "x")] * 5000), 4096)) == 4096


def test_parts_of_text_count_as_text_and_images_by_their_digest():
    def asked(url):
        image = {"type": "image_url", "image_url": {"url": url}}
        return head(chat(("user", [{"type": "text", "text": "What is this?"}, image])))

    assert asked("a" * 9000).startswith(b"user\x1fWhat is this?")
    assert len(asked("a" * 9000)) < 100
    assert asked("a" * 9000) == asked("a" * 9000) != asked("b" * 9000)


def test_prompt_of_a_completion_is_its_head():
    assert head({"model": "m", "prompt": "Once upon"}) == b"Once upon"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        pytest.param(b'{"prompt":' + b"[" * 5000 + b"]" * 5000 + b"}", id="deep"),
        b'{"messages":7}',
        b'{"messages":[7]}',
        b'{"messages":[{"role":7}]}',
        b'{"input":"x"}',
        b'{"prompt":[1,2]}',
    ],
)
def test_body_without_a_readable_conversation_has_no_head(body):
    assert head_of(body, 2048) == b""
