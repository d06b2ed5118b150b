"""The engines that the contract is held against: one kind a parameter."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.fakes.engines import EngineProcess, StartLlama, StartSim

MODEL = "contract-model"

GENUINE = os.environ.get("LLMGW_TEST_LLAMA_SERVER", "")
"""Path of a genuine ``llama-server``, where there is one."""


@dataclass(frozen=True)
class Kind:
    """One engine: how it is started, and what it calls the metrics that a scraper reads."""

    name: str
    start: Callable[..., EngineProcess]
    embedding_flags: tuple[str, ...]
    running: str
    waiting: str
    prompt_tokens: str
    generated_tokens: str


_LLAMA_METRICS = {
    "running": "llamacpp:requests_processing",
    "waiting": "llamacpp:requests_deferred",
    "prompt_tokens": "llamacpp:prompt_tokens_total",
    "generated_tokens": "llamacpp:tokens_predicted_total",
}
_EMBEDDING_FLAGS = ("--embeddings", "--pooling", "mean")


@pytest.fixture(
    params=[
        "sim",
        "launcher",
        pytest.param(
            "llama-server",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(not GENUINE, reason="LLMGW_TEST_LLAMA_SERVER names no program"),
            ],
        ),
    ]
)
def kind(request: pytest.FixtureRequest, start_sim: StartSim, start_llama: StartLlama) -> Kind:
    """The engine under test, not started."""
    if request.param == "sim":
        return Kind(
            name="sim",
            start=lambda *_, **more: start_sim(MODEL, ttft_ms=5, tpot_ms=1, load_s=0.2, **more),
            embedding_flags=(),
            running="vllm:num_requests_running",
            waiting="vllm:num_requests_waiting",
            prompt_tokens="vllm:prompt_tokens_total",
            generated_tokens="vllm:generation_tokens_total",
        )
    program = {} if request.param == "launcher" else {"program": (GENUINE,)}
    return Kind(
        name=request.param,
        start=lambda *flags, **more: start_llama(*flags, alias=MODEL, **program, **more),
        embedding_flags=_EMBEDDING_FLAGS,
        **_LLAMA_METRICS,
    )


@pytest.fixture
def engine(kind: Kind) -> EngineProcess:
    """The engine under test, ready."""
    return kind.start()
