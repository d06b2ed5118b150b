"""The engines that the contract is held against: one kind a parameter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from llmgw.agent.engines.contract import Place
from llmgw.agent.engines.sglang import Sglang
from llmgw.agent.engines.vllm import Vllm
from llmgw.config.tending import SglangSettings, VllmSettings
from llmgw.domain.replicas import LaunchProfile, ShardSpec
from tests.fakes import stub_engines
from tests.fakes.engines import EngineProcess, StartLlama, StartSim, free_port

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
_STUB_METRICS = {
    "vllm": {
        "running": "vllm:num_requests_running",
        "waiting": "vllm:num_requests_waiting",
        "prompt_tokens": "vllm:prompt_tokens_total",
        "generated_tokens": "vllm:generation_tokens_total",
    },
    "sglang": {
        "running": "sglang:num_running_reqs",
        "waiting": "sglang:num_queue_reqs",
        "prompt_tokens": "sglang:prompt_tokens_total",
        "generated_tokens": "sglang:generation_tokens_total",
    },
}
_EMBEDDING_FLAGS = ("--embeddings", "--pooling", "mean")


StartStub = Callable[..., EngineProcess]


@pytest.fixture
def start_stub(tmp_path: Path) -> Iterator[StartStub]:
    """Start a program that behaves as vLLM or SGLang do, by the driver's own command."""
    place = Place(listen_addr="127.0.0.1", environ={"PATH": os.defpath})
    folder = stub_engines.install(tmp_path / "bin")
    drivers = {
        "vllm": Vllm(
            settings=VllmSettings(bin=str(folder / "vllm")), place=place, stop_timeout_s=5.0
        ),
        "sglang": Sglang(
            settings=SglangSettings(python=str(folder / "python")), place=place, stop_timeout_s=5.0
        ),
    }
    engines: list[EngineProcess] = []

    def start(name: str, *, is_awaited: bool = True) -> EngineProcess:
        profile = LaunchProfile("p", name, model_path="Org/Model", served_model_name=MODEL)
        spec = ShardSpec("r", "r.0", profile, http_port=free_port())
        [command] = drivers[name].commands(spec)
        words = [command.path, *command.args]
        url = f"http://127.0.0.1:{spec.http_port}"
        engine = EngineProcess(words, log=tmp_path / f"{len(engines)}.log", url=url)
        engines.append(engine)
        if is_awaited:
            engine.wait_ready()
        return engine

    yield start
    for engine in engines:
        engine.close()


@pytest.fixture(
    params=[
        "sim",
        "launcher",
        "vllm",
        "sglang",
        pytest.param(
            "llama-server",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(not GENUINE, reason="LLMGW_TEST_LLAMA_SERVER names no program"),
            ],
        ),
    ]
)
def kind(
    request: pytest.FixtureRequest,
    start_sim: StartSim,
    start_llama: StartLlama,
    start_stub: StartStub,
) -> Kind:
    """The engine under test, not started; vLLM and SGLang are programs that behave like them."""
    if request.param in _STUB_METRICS:
        return Kind(
            name=request.param,
            start=lambda *_, **more: start_stub(request.param, **more),
            embedding_flags=(),
            **_STUB_METRICS[request.param],
        )
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
