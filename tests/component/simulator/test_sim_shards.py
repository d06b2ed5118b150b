"""The shards of a simulated node: they obey like a real agent's, and answer on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket

import httpx
import pytest

from llmgw.domain.replicas import LaunchProfile, ShardSpec, ShardState
from llmgw.errors import Unknown
from llmgw.simulator import machines
from llmgw.simulator.behaviour import Behaviour
from llmgw.simulator.sim_shards import Habits, SimShards
from tests.fakes.engines import free_port
from tests.fakes.waiting import eventually

BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}
QUICK = Behaviour(ttft_ms=1, tpot_ms=1)
UP = ["pending", "starting", "loading", "ready"]


class Node:
    """The shards of one L40S machine, and all that they report."""

    def __init__(self, **habits):
        (machine,) = machines.load(["l40s"])
        self.facts = machines.node(machine, number=7, prefix="sim", serves=True)
        self.reports = []
        self.shards = SimShards(
            self.facts,
            habits=Habits(**{"load_s": 0.02, "behaviour": QUICK, **habits}),
            draw=random.Random(1),
            on_report=self.reports.append,
        )

    def spec(self, shard_id="r.0", *, gpus=(0,), rank=0):
        profile = LaunchProfile(name="p", engine="vllm", model_path="x", served_model_name="m")
        return ShardSpec(
            replica_id="r",
            shard_id=shard_id,
            profile=profile,
            http_port=free_port(),
            gpu_indices=gpus,
            rank=rank,
        )

    def states(self, shard_id="r.0"):
        return [str(one.state) for one in self.reports if one.shard_id == shard_id]

    async def until(self, state):
        async with asyncio.timeout(10):
            while self.states()[-1:] != [str(state)]:  # noqa: ASYNC110 - reports come as calls
                await asyncio.sleep(0.005)

    async def up(self, **wanted):
        spec = self.spec(**wanted)
        self.shards.start(spec)
        await self.until(ShardState.READY)
        return spec

    async def ask(self, spec, **body):
        url = f"http://{self.facts.mgmt_addr}:{spec.http_port}"
        async with httpx.AsyncClient(base_url=url, timeout=10) as client:
            return await client.post("/v1/chat/completions", json={**BODY, **body})


@contextlib.asynccontextmanager
async def node(**habits):
    made = Node(**habits)
    try:
        yield made
    finally:
        await made.shards.close()


async def test_a_shard_comes_up_step_by_step_and_answers():
    async with node() as here:
        spec = await here.up()
        answer = await here.ask(spec)
        assert answer.status_code == 200
        assert answer.json()["model"] == "m"
        assert here.states() == UP
        assert here.shards.serving() == ("r.0",)
        (listed,) = here.shards.running()
        assert (listed.state, listed.http_port) == (ShardState.READY, spec.http_port)


async def test_a_shard_that_loads_answers_that_it_loads():
    async with node(load_s=30) as here:
        spec = here.spec()
        here.shards.start(spec)
        await here.until(ShardState.LOADING)
        assert (await here.ask(spec)).status_code == 503


async def test_an_order_that_comes_twice_starts_one_shard():
    async with node() as here:
        spec = await here.up()
        here.shards.start(spec)
        assert here.states() == [*UP, "ready"]
        assert len(here.shards.running()) == 1


async def test_a_stopped_shard_is_gone_from_its_port_at_once():
    async with node() as here:
        spec = await here.up()
        here.shards.stop("r.0")
        here.shards.stop("r.0")
        assert here.states() == [*UP, "stopped", "stopped"]
        assert here.shards.running() == ()
        with pytest.raises(httpx.ConnectError):
            await here.ask(spec)


async def test_a_shard_that_still_loads_can_be_stopped():
    async with node(load_s=30) as here:
        here.shards.start(here.spec())
        here.shards.stop("r.0")
        await asyncio.sleep(0.05)
        assert here.states() == ["pending", "stopped"]


async def test_a_drain_is_over_when_the_last_request_is():
    async with node() as here:
        spec = await here.up()
        long = asyncio.create_task(here.ask(spec, max_tokens=300))
        await eventually(lambda: here.shards.busy_cards() == {0})
        here.shards.drain("r.0")
        assert here.states()[-1] == "draining"
        assert not here.reports[-1].is_drained
        assert (await long).status_code == 200
        async with asyncio.timeout(5):
            while not here.reports[-1].is_drained:  # noqa: ASYNC110 - reports come as calls
                await asyncio.sleep(0.01)
        assert here.states() == [*UP, "draining", "draining"]


async def test_a_drain_that_was_told_twice_is_told_of_twice():
    async with node(serves=False) as here:
        await here.up()
        here.shards.drain("r.0")
        here.shards.drain("r.0")
        here.shards.drain("nobody.0")
        assert here.states() == [*UP, "draining", "draining"]
        assert here.states("nobody.0") == ["stopped"]


async def test_a_killed_engine_is_told_of_with_its_signal():
    async with node() as here:
        await here.up()
        here.shards.crash("r.0")
        last = here.reports[-1]
        assert (last.state, last.exit_code) == (ShardState.FAILED, -9)
        assert "SIGKILL" in last.error
        assert last.last_output
        assert here.shards.running() == ()


async def test_a_port_of_a_stranger_is_told_of_as_such():
    async with node() as here:
        spec = here.spec()
        with socket.create_server((here.facts.mgmt_addr, spec.http_port)):
            here.shards.start(spec)
            await here.until(ShardState.FAILED)
        assert here.reports[-1].error.startswith("port_in_use")


async def test_a_card_that_the_node_has_not_fails_the_start():
    async with node() as here:
        here.shards.start(here.spec(gpus=(0, 9)))
        assert here.states() == ["pending", "failed"]
        assert here.reports[-1].error == "this node has no GPU 9"


async def test_lost_power_is_told_by_nobody():
    async with node() as here:
        spec = await here.up()
        said = len(here.reports)
        here.shards.lose_power()
        assert len(here.reports) == said
        assert here.shards.running() == ()
        with pytest.raises(httpx.ConnectError):
            await here.ask(spec)


async def test_without_serving_nothing_listens_and_the_states_are_the_same():
    async with node(serves=False) as here:
        spec = await here.up()
        assert here.states() == UP
        with pytest.raises(httpx.ConnectError):
            await here.ask(spec)


async def test_only_the_first_rank_listens():
    async with node() as here:
        spec = await here.up(rank=1)
        with pytest.raises(httpx.ConnectError):
            await here.ask(spec)


async def test_a_card_is_in_use_while_its_engine_runs():
    async with node() as here:
        await here.up(gpus=(1, 3))
        assert here.shards.cards_in_use() == {1, 3}
        here.shards.stop("r.0")
        assert here.shards.cards_in_use() == frozenset()


async def test_logs_of_the_node_and_of_a_shard_can_be_read():
    async with node() as here:
        await here.up()
        assert here.shards.log_sources() == ("agent", "r.0")
        assert here.shards.log_tail("r.0", 2) == ("r.0 is loading", "r.0 is ready")
        with pytest.raises(Unknown):
            here.shards.log_tail("other", 2)


def test_load_times_lie_around_their_median_and_some_are_slow():
    draw = random.Random(3)
    habits = Habits(load_s=10.0, slow_share=0.25)
    drawn = sorted(habits.draw_load_s(draw) for _ in range(2000))
    slow = [one for one in drawn if one > 40]
    assert 0.2 < len(slow) / len(drawn) < 0.3
    assert 9 < sorted(one for one in drawn if one <= 40)[len(drawn) * 3 // 8] < 11
