"""Replicas of several nodes: ranks are held back, meet, serve, and fall together."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from llmgw.agent import orders
from llmgw.agent.supervisor import adoption
from llmgw.config.settings import AgentSettings
from llmgw.config.tending import EnginesSettings, SglangSettings, SupervisorSettings, VllmSettings
from llmgw.domain.nodes import Gpu
from llmgw.domain.replicas import LaunchProfile, ShardSpec, ShardState
from llmgw.kit.clock import SystemClock
from tests.fakes import stub_engines
from tests.fakes.agents import NoCards, is_alive
from tests.fakes.engines import free_port
from tests.fakes.waiting import eventually

CARDS = tuple(
    Gpu(index=i, uuid=f"G{i}", name="NVIDIA H100 80GB HBM3", compute_capability="9.0")
    for i in range(2)
)


class TwoCards(NoCards):
    def gpus(self):
        return CARDS


class Node:
    """One agent of several on this machine, each on an address of its own."""

    def __init__(self, folder, *, addr, mode, bin_folder):
        self.reports = []
        self.addr = addr
        self.work_dir = folder / addr / "work"
        self.made = orders.build(
            AgentSettings(
                node_id=addr,
                mgmt_addr=addr,
                mgmt_interface="lo",
                weights_dir=str(folder / addr / "weights"),
                engines=EnginesSettings(
                    sglang=SglangSettings(python=str(bin_folder / "python")),
                    vllm=VllmSettings(bin=str(bin_folder / "vllm"), launch_mode=mode),
                ),
                supervisor=SupervisorSettings(
                    work_dir=str(self.work_dir), alive_grace=0.3, health_interval=0.05
                ),
            ),
            environ={"PATH": os.defpath, "NCCL_IB_HCA": "mlx5_9"},
            clock=SystemClock(),
            cards=TwoCards(),
            on_report=self.reports.append,
        )

    def state(self):
        return self.reports[-1].state if self.reports else None

    async def until(self, *states):
        await eventually(lambda: self.state() in states, within_s=40)

    def processes(self, shard_id):
        record = adoption.load(self.work_dir / f"shard-{shard_id}.json", shard_id=shard_id)
        return record.processes


@pytest.fixture
async def nodes(tmp_path):
    """Make two agents; they are closed with their engines."""
    bin_folder = stub_engines.install(tmp_path / "bin")
    made = []

    async def make(mode="ray"):
        for addr in ("127.0.0.2", "127.0.0.3"):
            node = Node(tmp_path, addr=addr, mode=mode, bin_folder=bin_folder)
            await node.made.recover()
            made.append(node)
        return made

    yield make
    for node in made:
        await node.made.close(stop_engines=True)


def shards(engine):
    profile = LaunchProfile(
        name="two",
        engine=engine,
        model_path="Org/Model",
        served_model_name="tiny",
        gpu_class="h100-80g",
        tp=2,
        pp=2,
        nodes=2,
        gpus_per_node=2,
    )
    leader = ShardSpec(
        replica_id="tiny-1",
        shard_id="tiny-1.0",
        profile=profile,
        http_port=free_port(),
        nnodes=2,
        leader_addr="127.0.0.2",
        leader_port=free_port(),
        gpu_indices=(0, 1),
        hcas=("mlx5_0", "mlx5_1"),
        fabric="ib-a",
    )
    return leader, replace(leader, shard_id="tiny-1.1", rank=1, http_port=free_port())


KINDS = pytest.mark.parametrize(
    ("engine", "mode"), [("vllm", "ray"), ("vllm", "mp"), ("sglang", "ray"), ("sim", "ray")]
)


async def serving(nodes, engine, mode):
    """Both ranks ready; the one that needs the other is ordered first."""
    first, second = await nodes(mode)
    leads, follows = shards(engine)
    second.made.start(follows)
    await asyncio.sleep(0.5)
    assert second.state() is ShardState.PENDING, second.reports[-1]
    first.made.start(leads)
    await first.until(ShardState.READY, ShardState.FAILED)
    await second.until(ShardState.READY, ShardState.FAILED)
    assert first.state() is ShardState.READY, first.reports[-1]
    assert second.state() is ShardState.READY, second.reports[-1]
    return first, second, leads


@KINDS
async def test_a_rank_that_is_ordered_first_is_held_back_and_the_replica_serves(
    nodes, engine, mode
):
    """The programs end at once when they find nobody, so one that was not held back would fail."""
    first, _, leads = await serving(nodes, engine, mode)
    async with httpx.AsyncClient(timeout=20) as client:
        got = await client.post(
            f"http://{first.addr}:{leads.http_port}/v1/chat/completions",
            json={"model": "tiny", "messages": [{"role": "user", "content": "hi"}]},
        )
    assert got.json()["model"] == "tiny"


@KINDS
async def test_a_rank_that_dies_takes_the_first_one_with_it(nodes, engine, mode):
    first, second, _ = await serving(nodes, engine, mode)
    os.killpg(second.processes("tiny-1.1")[-1].pid, 9)
    await second.until(ShardState.FAILED)
    await first.until(ShardState.FAILED)
    assert "SIGKILL" in second.reports[-1].error
    assert first.reports[-1].error
    await eventually(lambda: not first.made.running())
    assert not (first.work_dir / "shard-tiny-1.0.json").exists()


async def test_all_processes_of_a_rank_end_with_it_the_ray_head_too(nodes):
    first, second, _ = await serving(nodes, "vllm", "ray")
    held = [one.pid for one in first.processes("tiny-1.0")]
    assert len(held) == 2
    first.made.stop("tiny-1.0")
    second.made.stop("tiny-1.1")
    await first.until(ShardState.STOPPED)
    await second.until(ShardState.STOPPED)
    await eventually(lambda: not any(is_alive(pid) for pid in held))


@KINDS
async def test_processes_of_every_rank_see_the_adapters_of_the_fabric_alone(nodes, engine, mode):
    first, second, _ = await serving(nodes, engine, mode)
    pids = [
        one.pid
        for node, shard_id in ((first, "tiny-1.0"), (second, "tiny-1.1"))
        for one in node.processes(shard_id)
    ]
    for pid in pids:
        seen = _environment(pid)
        assert seen["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"
        assert seen["UCX_NET_DEVICES"] == "mlx5_0:1,mlx5_1:1"
        assert (seen["NCCL_SOCKET_IFNAME"], seen["GLOO_SOCKET_IFNAME"]) == ("=lo", "lo")


def _environment(pid):
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


async def test_a_profile_that_cannot_run_fails_before_anything_is_started(nodes):
    first, _ = await nodes()
    leads, _ = shards("vllm")
    wrong = replace(leads.profile, tp=3, args=("--port", "1"))
    first.made.start(replace(leads, profile=wrong))
    await first.until(ShardState.FAILED)
    error = first.reports[-1].error
    assert "tp x pp asks for 6 cards" in error
    assert "--port" in error
    assert ShardState.STARTING not in [report.state for report in first.reports]
