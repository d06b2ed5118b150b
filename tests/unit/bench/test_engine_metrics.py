"""What engines say of their load, by the names that each of them uses."""

from __future__ import annotations

import pytest

from llmgw.bench.engine_metrics import read
from llmgw.bench.levels import EngineLoad

VLLM = """\
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting{engine="1",model_name="m"} 3.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.2
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.4
"""
SGLANG = 'sglang:num_queue_reqs{model_name="m"} 4\nsglang:token_usage{model_name="m"} 0.5\n'
LLAMACPP = "llamacpp:requests_deferred 1\n"


@pytest.mark.parametrize(
    ("page", "load"),
    [
        (VLLM, EngineLoad(waiting=5.0, kv=pytest.approx(0.3))),
        (SGLANG, EngineLoad(waiting=4.0, kv=0.5)),
        (LLAMACPP, EngineLoad(waiting=1.0)),
        ("<html>", EngineLoad()),
        ("vllm:num_requests_waiting many\n", EngineLoad()),
    ],
    ids=["vllm", "sglang", "llamacpp", "no metrics", "no number"],
)
def test_what_is_published_is_read_and_the_rest_is_absent(page, load):
    assert read(page) == load
