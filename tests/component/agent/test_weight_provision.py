"""Models that are fetched before any shard needs them."""

from __future__ import annotations

import asyncio
import json

import pytest

from llmgw.agent.supervisor import workdir
from llmgw.agent.weights.fetch_orders import FetchOrders
from llmgw.agent.weights.fetching import Weights
from llmgw.domain import weights
from llmgw.domain.fetch_status import FetchState
from llmgw.errors import Invalid
from llmgw.kit.clock import SystemClock
from tests.fakes.agents import parts
from tests.fakes.checkpoints import CHECKPOINT, hub_of, silent
from tests.fakes.hub import Repository, serving_hub
from tests.fakes.waiting import eventually


async def until(shelf, holds):
    async with asyncio.timeout(30):
        while not holds(await shelf.standing("hf:org/model")):  # noqa: ASYNC110 - polled by orders
            await asyncio.sleep(0.01)


async def test_what_is_provisioned_comes_without_anybody_who_waits(shelf_at):
    async with serving_hub(hub_of(CHECKPOINT)) as hub:
        shelf = shelf_at(hub.url)
        assert (await shelf.provision("hf:org/model")).state is FetchState.LOOKING
        assert (await shelf.provision("hf:org/model")).state is FetchState.LOOKING
        await until(shelf, lambda status: status.state is FetchState.PRESENT)
        assert len(hub.front.asked("/revision/")) == 1
        assert shelf.status() == ()


async def test_a_failed_provision_stays_failed_with_its_reason_until_asked_again(shelf_at):
    async with serving_hub({}) as hub:
        shelf = shelf_at(hub.url)
        await shelf.provision("hf:org/model")
        await until(shelf, lambda status: status.state is FetchState.FAILED)
        [status] = shelf.status()
        assert "no such repository" in status.error
        hub.repositories["org/model"] = Repository(CHECKPOINT)
        await shelf.provision("hf:org/model")
        await until(shelf, lambda status: status.state is FetchState.PRESENT)
        assert shelf.status() == ()


async def test_a_shard_that_leaves_does_not_end_what_was_provisioned(shelf_at):
    async with serving_hub(hub_of(CHECKPOINT)) as hub:
        shelf = shelf_at(hub.url)
        hub.store.gate.clear()
        await shelf.provision("hf:org/model")
        shard = asyncio.ensure_future(shelf.ensure("hf:org/model", on_progress=silent))
        await eventually(lambda: hub.store.requests)
        shard.cancel()
        with pytest.raises(asyncio.CancelledError):
            await shard
        hub.store.gate.set()
        await until(shelf, lambda status: status.state is FetchState.PRESENT)


async def test_a_provision_that_is_cancelled_keeps_what_came(shelf_at, tmp_path):
    async with serving_hub(hub_of(CHECKPOINT)) as hub:
        shelf = shelf_at(hub.url)
        hub.store.gate.clear()
        await shelf.provision("hf:org/model")
        came = tmp_path / "cache" / f"{weights.cache_name('hf:org/model')}.partial" / "config.json"
        await eventually(came.exists)  # the last block of another one may be dropped
        assert shelf.cancel("hf:org/model")
        assert not shelf.cancel("hf:org/model")
        status = await shelf.standing("hf:org/model")
        assert status.state is FetchState.ABSENT
        assert status.done_bytes > 0


async def test_what_was_ordered_ahead_comes_though_its_agent_restarts(tmp_path):
    name = weights.cache_name("hf:org/model")
    whole, orders = tmp_path / "weights" / name, tmp_path / "work" / workdir.FETCH_ORDERS
    async with serving_hub(hub_of(CHECKPOINT)) as hub:
        hub.store.gate.clear()
        async with parts(tmp_path, weights={"hub_url": hub.url}) as first:
            await first.orders.fetch_ahead("hf:org/model")
            await eventually(lambda: hub.store.requests)
        hub.store.gate.set()
        assert not whole.exists()
        async with parts(tmp_path, weights={"hub_url": hub.url}) as following:
            await following.orders.recover()
            await eventually(whole.exists)
            await eventually(lambda: json.loads(orders.read_text()) == [])
        assert orders.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("ends", ["fails", "is called off", "is damaged"])
async def test_an_order_that_has_ended_is_not_taken_up_again(tmp_path, ends):
    orders = tmp_path / "work" / workdir.FETCH_ORDERS
    async with serving_hub({} if ends == "fails" else hub_of(CHECKPOINT)) as hub:
        hub.store.gate.clear()
        async with parts(tmp_path, weights={"hub_url": hub.url}) as first:
            await first.orders.fetch_ahead("hf:org/model")
            assert json.loads(orders.read_text()) == ["hf:org/model"]
            if ends == "is called off":
                assert first.orders.call_off("hf:org/model")
            if ends == "fails":
                await eventually(lambda: json.loads(orders.read_text()) == [])
        if ends == "is damaged":
            orders.write_text('["hf:or')
        hub.store.gate.set()
        async with parts(tmp_path, weights={"hub_url": hub.url}) as following:
            await following.orders.recover()
            await asyncio.sleep(0.1)
            assert following.orders.fetches() == ()


async def test_an_order_that_the_new_settings_refuse_is_dropped(tmp_path):
    ordered = FetchOrders(tmp_path / "orders")
    ordered.add("hf:org/model")
    shelf = Weights(folder="", clock=SystemClock(), ordered=FetchOrders(tmp_path / "orders"))
    await shelf.resume()
    assert FetchOrders(tmp_path / "orders").all() == ()
    await shelf.close()


@pytest.mark.parametrize("source", ["/models/x.gguf", "Org/Model", "hf:org"])
async def test_only_remote_sources_are_provisioned(shelf_at, source):
    with pytest.raises(Invalid):
        await shelf_at("http://127.0.0.1:9").provision(source)
