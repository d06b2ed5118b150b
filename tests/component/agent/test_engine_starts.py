"""The drivers' own commands start real engines, which answer and end as their plans say."""

from __future__ import annotations

import os
import sys
import time

import httpx
import pytest

from llmgw.agent import orders
from llmgw.config.settings import AgentSettings
from llmgw.config.tending import EnginesSettings, LlamaCppSettings, SupervisorSettings
from llmgw.domain.replicas import LaunchProfile, ShardSpec, ShardState
from llmgw.kit.clock import SystemClock
from tests.fakes.agents import NoCards
from tests.fakes.engines import free_port
from tests.fakes.waiting import eventually

LAUNCHER = (sys.executable, "-m", "llmgw", "llama-server")


@pytest.fixture
async def agent(tmp_path):
    reports = []
    settings = AgentSettings(
        node_id="node01",
        mgmt_addr="127.0.0.1",
        weights_dir=str(tmp_path / "weights"),
        engines=EnginesSettings(llamacpp=LlamaCppSettings(bin=LAUNCHER, parallel=2)),
        supervisor=SupervisorSettings(work_dir=str(tmp_path / "work")),
    )
    made = orders.build(
        settings,
        environ=dict(os.environ) | {"PYTHONPATH": os.pathsep.join(sys.path)},
        clock=SystemClock(),
        cards=NoCards(),
        on_report=reports.append,
    )
    await made.recover()
    yield made, reports
    await made.close(stop_engines=True)


async def started(agent, engine, source, **fields):
    made, reports = agent
    profile = LaunchProfile(
        name="cpu", engine=engine, model_path=source, served_model_name="tiny", **fields
    )
    spec = ShardSpec(replica_id="t", shard_id="t.0", profile=profile, http_port=free_port())
    made.start(spec)
    await eventually(
        lambda: reports[-1].state in {ShardState.READY, ShardState.FAILED}, within_s=30
    )
    assert reports[-1].state is ShardState.READY, reports[-1]
    return f"http://127.0.0.1:{spec.http_port}"


@pytest.mark.parametrize("engine", ["sim", "llamacpp"])
async def test_an_engine_answers_and_ends_while_a_request_is_open(agent, engine, tiny_gguf):
    made, reports = agent
    extra = {"sim": {"args": ("--tpot-ms", "200")}, "llamacpp": {"args": ("--threads", "1")}}
    url = await started(agent, engine, str(tiny_gguf), **extra[engine])
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 400}
    async with (
        httpx.AsyncClient(timeout=20) as client,
        client.stream("POST", f"{url}/v1/chat/completions", json={**body, "stream": True}) as got,
    ):
        assert got.status_code == 200
        chunks = got.aiter_bytes()
        assert b"data:" in await anext(chunks)
        began = time.monotonic()
        made.stop("t.0")
        if engine == "llamacpp":
            await eventually(lambda: reports[-1].state is ShardState.STOPPED, within_s=15)
            assert time.monotonic() - began < 10
    await eventually(lambda: reports[-1].state is ShardState.STOPPED, within_s=15)


async def test_the_embeddings_capability_makes_llamacpp_answer_them(agent, tiny_gguf):
    url = await started(
        agent, "llamacpp", str(tiny_gguf), capabilities=("embeddings",), context_length=128
    )
    async with httpx.AsyncClient(timeout=20) as client:
        got = await client.post(f"{url}/v1/embeddings", json={"model": "tiny", "input": "hi"})
        assert got.status_code == 200
        assert (await client.get(f"{url}/v1/models")).json()["data"][0]["id"] == "tiny"


async def test_a_model_that_cannot_be_loaded_fails_with_the_engines_own_words(agent, tmp_path):
    made, reports = agent
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"not a model")
    profile = LaunchProfile(
        name="cpu", engine="llamacpp", model_path=str(broken), served_model_name="tiny"
    )
    made.start(ShardSpec(replica_id="t", shard_id="t.0", profile=profile, http_port=free_port()))
    await eventually(lambda: reports[-1].state is ShardState.FAILED, within_s=30)
    assert reports[-1].exit_code not in {0, None}
    assert any("broken.gguf" in line for line in reports[-1].last_output)
