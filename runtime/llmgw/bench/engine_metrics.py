"""Reads from an engine's ``/metrics`` how many requests wait and how full its KV cache is.

Names by engine and version: vLLM, SGLang and llama.cpp as their servers publish them; what an
engine does not publish is absent.
"""

from __future__ import annotations

import contextlib
import re

from llmgw.bench.levels import EngineLoad

_WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred")
_KV = (
    "vllm:kv_cache_usage_perc",
    "vllm:gpu_cache_usage_perc",
    "sglang:token_usage",
    "llamacpp:kv_cache_usage_ratio",
)
_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{.*\})? (\S+)", re.MULTILINE)


def read(text: str) -> EngineLoad:
    """The load in a page of metrics: waiting summed over its series, KV as their mean."""
    series: dict[str, list[float]] = {}
    for name, value in _SAMPLE.findall(text):
        if name in _WAITING or name in _KV:
            with contextlib.suppress(ValueError):
                series.setdefault(name, []).append(float(value))
    waiting = next((found for name in _WAITING if (found := series.get(name))), None)
    kv = next((found for name in _KV if (found := series.get(name))), None)
    return EngineLoad(
        waiting=None if waiting is None else sum(waiting),
        kv=None if kv is None else sum(kv) / len(kv),
    )
