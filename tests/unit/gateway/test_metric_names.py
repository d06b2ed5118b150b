"""Engines' own names for their figures, by engine and version."""

from __future__ import annotations

import pytest

from llmgw.gateway import metric_names
from llmgw.gateway.metric_names import Reading

VLLM = b"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 10.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 5.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 100.0
vllm:generation_tokens_total{engine="0",model_name="m"} 50.0
"""
OLD_VLLM = VLLM.replace(b"kv_cache_usage_perc", b"gpu_cache_usage_perc")
SGLANG = b"""\
sglang:num_running_reqs{model_name="m"} 4.0
sglang:num_queue_reqs{model_name="m"} 2.0
sglang:token_usage{model_name="m"} 0.5
sglang:num_requests_total{model_name="m"} 7.0
sglang:prompt_tokens_total{model_name="m"} 8.0
sglang:generation_tokens_total{model_name="m"} 9.0
"""
NEW_SGLANG = (
    SGLANG
    + b"""\
sglang:realtime_tokens_total{model_name="m",mode="prefill_compute"} 20.0
sglang:realtime_tokens_total{model_name="m",mode="decode"} 30.0
"""
)
LLAMACPP = b"""\
llamacpp:prompt_tokens_total 100
llamacpp:tokens_predicted_total 40
llamacpp:n_decode_total 60
llamacpp:requests_processing 1
llamacpp:requests_deferred 0
"""


@pytest.mark.parametrize(
    ("engine", "page", "reading"),
    [
        ("vllm", VLLM, Reading(5, 1, kv=0.5, successes=15, progress=150)),
        ("vllm", OLD_VLLM, Reading(5, 1, kv=0.5, successes=15, progress=150)),
        ("sim", VLLM, Reading(5, 1, kv=0.5, successes=15, progress=150)),
        ("", VLLM, Reading(5, 1, kv=0.5, successes=15, progress=150)),
        ("sglang", SGLANG, Reading(4, 2, kv=0.5, successes=7, progress=17, is_steady=False)),
        ("sglang", NEW_SGLANG, Reading(4, 2, kv=0.5, successes=7, progress=67)),
        ("llamacpp", LLAMACPP, Reading(1, 0, progress=100, is_steady=False)),
        ("", LLAMACPP, Reading(1, 0, progress=100, is_steady=False)),
        ("", SGLANG, Reading(4, 2, kv=0.5, successes=7, progress=17, is_steady=False)),
    ],
    ids=[
        "vllm",
        "older vllm",
        "sim",
        "unnamed",
        "sglang",
        "newer sglang",
        "llamacpp",
        "unnamed llamacpp",
        "unnamed sglang",
    ],
)
def test_each_engine_is_read_by_its_own_names(engine, page, reading):
    assert metric_names.read(page, metric_names.of(engine, page)) == reading


def test_only_a_counter_that_moves_within_a_long_answer_tells_of_a_hang():
    """Older versions of SGLang count an answer's tokens when it is over."""
    old = metric_names.read(SGLANG, metric_names.of("sglang"))
    new = metric_names.read(NEW_SGLANG, metric_names.of("sglang"))
    assert (old.is_steady, new.is_steady) == (False, True)


def test_what_is_not_published_is_absent_and_not_zero():
    read = metric_names.read(LLAMACPP, metric_names.of("llamacpp"))
    assert read.kv is None
    assert read.successes is None


def test_a_promised_figure_that_is_missing_is_told_and_the_rest_is_used():
    page = VLLM.replace(b"kv_cache_usage_perc", b"kv_cache_usage_share")
    read = metric_names.read(page, metric_names.of("vllm"))
    assert read == Reading(5, 1, successes=15, progress=150, lacks=("vllm:kv_cache_usage_perc",))


@pytest.mark.parametrize(
    ("page", "lacks"),
    [
        (b"", ("vllm:num_requests_running", "vllm:num_requests_waiting")),
        (b"vllm:num_requests_running 1\n", ("vllm:num_requests_waiting",)),
        (
            b"vllm:num_requests_running NaN\nvllm:num_requests_waiting x\n",
            ("vllm:num_requests_running", "vllm:num_requests_waiting"),
        ),
        (b"\xff\x00<html>", ("vllm:num_requests_running", "vllm:num_requests_waiting")),
    ],
    ids=["empty", "half", "no numbers", "no text"],
)
def test_a_page_that_lacks_what_routing_needs_is_told_by_name(page, lacks):
    assert metric_names.read(page, metric_names.of("vllm")) == lacks
