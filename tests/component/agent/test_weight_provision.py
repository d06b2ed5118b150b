"""Models that are fetched before any shard needs them."""

from __future__ import annotations

import asyncio

import pytest

from llmgw.domain import weights
from llmgw.domain.fetch_status import FetchState
from llmgw.errors import Invalid
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


@pytest.mark.parametrize("source", ["/models/x.gguf", "Org/Model", "hf:org"])
async def test_only_remote_sources_are_provisioned(shelf_at, source):
    with pytest.raises(Invalid):
        await shelf_at("http://127.0.0.1:9").provision(source)
