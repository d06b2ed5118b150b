"""An answer tells what it cost, in each shape that engines use, and nothing else is believed."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway import usage
from llmgw.gateway.usage import Usage

OPENAI = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}


def body_with(said, **fields):
    return orjson.dumps({"id": "x", **fields, "usage": said})


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(OPENAI, Usage(11, 5), id="chat"),
        pytest.param({"prompt_tokens": 7, "total_tokens": 7}, Usage(7, 0), id="embeddings"),
        pytest.param(
            {**OPENAI, "prompt_tokens_details": {"cached_tokens": 8, "audio_tokens": 0}},
            Usage(11, 5, 8),
            id="cached",
        ),
        pytest.param({**OPENAI, "prompt_tokens_details": None}, Usage(11, 5), id="null details"),
        pytest.param(
            {
                "input_tokens": 3,
                "output_tokens": 4,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 2},
            },
            Usage(3, 4, 0),
            id="responses",
        ),
        pytest.param(
            {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 2},
            Usage(3, 4, 2),
            id="messages",
        ),
        pytest.param(None, None, id="null"),
        pytest.param({}, None, id="empty"),
        pytest.param("11", None, id="text"),
        pytest.param({"prompt_tokens": "11", "completion_tokens": 5}, None, id="text in it"),
        pytest.param({"prompt_tokens": -1, "completion_tokens": 5}, None, id="negative"),
        pytest.param({"prompt_tokens": 2**60, "completion_tokens": 5}, None, id="absurd"),
    ],
)
def test_usage_is_read_in_every_shape_and_believed_only_if_it_can_be(said, expected):
    assert usage.of_body(body_with(said)) == expected


def test_indented_body_is_read_too():
    body = orjson.dumps({"usage": OPENAI}, option=orjson.OPT_INDENT_2)
    assert usage.of_body(body) == Usage(11, 5)


def test_last_of_several_figures_counts():
    running = b'data: {"usage":{"prompt_tokens":11,"completion_tokens":%d}}\n\n'
    assert usage.in_text(running % 1 + running % 2 + b'data: {"usage":null}\n\n') == Usage(11, 2)


@pytest.mark.parametrize("filling", [0, 8000, 9000, 3_000_000])
def test_figures_are_found_at_the_end_of_a_body_of_any_size(filling):
    assert usage.of_body(body_with(OPENAI, data="x" * filling)) == Usage(11, 5)


def test_figures_are_found_at_the_begin_of_a_long_body():
    body = orjson.dumps({"usage": OPENAI, "data": "x" * 100_000})
    assert usage.of_body(body) == Usage(11, 5)


def test_text_that_speaks_of_usage_is_not_taken_for_it():
    text = '"usage": {"prompt_tokens": 1, "completion_tokens": 1}'
    body = orjson.dumps({"choices": [{"message": {"content": text}}]})
    assert usage.of_body(body) is None


@given(st.binary(max_size=400), st.binary(max_size=400))
def test_no_bytes_at_all_make_reading_fail(before, after):
    in_body = usage.of_body(before + b'"usage":{"prompt_tokens":' + after)
    in_text = usage.in_text(before + b'"usage"' + after)
    assert all(found is None or isinstance(found, Usage) for found in (in_body, in_text))


def test_estimate_says_that_it_is_one():
    assert usage.estimate(request_bytes=400, frames=13, is_whole=True) == Usage(
        100, 10, is_estimated=True
    )
    assert usage.estimate(request_bytes=400, frames=1, is_whole=False).completion_tokens == 0
    assert usage.estimate(request_bytes=0, frames=0, is_whole=True).completion_tokens == 0
    assert usage.estimate_body(request_bytes=4, body_bytes=40) == Usage(1, 10, is_estimated=True)
