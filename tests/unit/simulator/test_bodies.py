"""The bodies that the sim engine writes."""

import base64
import json
import struct

import pytest

from llmgw.simulator import bodies, measures, words
from llmgw.simulator.asks import Ask, EmbeddingAsk, Shape

_LABEL = bodies.Label(request_id="1", created_at=2, model="m", fingerprint="sim-3")


def _ask(shape=Shape.CHAT, *, has_usage=False):
    return Ask(
        shape=shape,
        model="m",
        prompt_tokens=4,
        max_tokens=None,
        ignore_eos=False,
        is_stream=True,
        has_usage=has_usage,
    )


def _events(data):
    return [json.loads(e.removeprefix(b"data: ")) for e in data.split(b"\n\n") if e and b"{" in e]


@pytest.mark.parametrize("shape", list(Shape))
def test_the_streamed_text_is_the_text_of_the_whole_answer(shape):
    frames = bodies.Frames(_ask(shape), _LABEL)
    events = _events(frames.opening() + frames.tokens(0, 2) + frames.tokens(2, 30))
    pieces = [e["choices"][0].get("text", e["choices"][0].get("delta", {})) for e in events]
    streamed = "".join(p if isinstance(p, str) else p["content"] for p in pieces)
    whole = json.loads(bodies.whole(_ask(shape), _LABEL, n_tokens=32, finish_reason="stop"))
    choice = whole["choices"][0]
    assert (
        streamed == words.text(32) == choice.get("text", choice.get("message", {}).get("content"))
    )


def test_a_stream_without_usage_never_mentions_it():
    frames = bodies.Frames(_ask(), _LABEL)
    data = frames.opening() + frames.tokens(0, 1) + frames.ending(n_tokens=1, finish_reason="stop")
    assert b"usage" not in data
    assert data.endswith(b"data: [DONE]\n\n")


def test_a_stream_with_usage_ends_with_a_chunk_without_choices():
    frames = bodies.Frames(_ask(has_usage=True), _LABEL)
    events = _events(frames.tokens(0, 1) + frames.ending(n_tokens=1, finish_reason="length"))
    assert [e["usage"] for e in events[:-1]] == [None, None]
    assert events[-2]["choices"][0]["finish_reason"] == "length"
    assert events[-1]["choices"] == []
    assert events[-1]["usage"] == {
        "prompt_tokens": 4,
        "completion_tokens": 1,
        "total_tokens": 5,
    }


def test_a_vector_depends_on_the_text_alone():
    one, again, other = (words.vector(t, dimensions=8) for t in ("a", "a", "b"))
    assert one == again != other
    assert sum(v * v for v in one) == pytest.approx(1.0)


def test_packed_vectors_are_little_endian_floats():
    ask = EmbeddingAsk(model="m", texts=("a",), dimensions=4, is_base64=True)
    packed = json.loads(bodies.embeddings(ask, model="m"))["data"][0]["embedding"]
    values = struct.unpack("<4f", base64.b64decode(packed))
    assert values == pytest.approx(words.vector("a", dimensions=4), abs=1e-6)


def test_metrics_carry_the_names_that_a_scraper_of_vllm_knows():
    load = measures.Load(running=2, waiting=1, tokens_held=50, kv_tokens=100)
    text = measures.exposition(measures.Measures(generation_tokens=9), load, model="m")
    for line in (
        'vllm:num_requests_running{model_name="m"} 2',
        'vllm:num_requests_waiting{model_name="m"} 1',
        'vllm:kv_cache_usage_perc{model_name="m"} 0.500000',
        'vllm:prompt_tokens_total{model_name="m"} 0',
        'vllm:generation_tokens_total{model_name="m"} 9',
        'vllm:request_success_total{model_name="m",finished_reason="stop"} 0',
        'sim:requests_aborted_total{model_name="m"} 0',
    ):
        assert line in text.splitlines()
