"""What operators say, through a control plane with a real store that is left or goes away."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from llmgw.config.settings import AuthSettings, ControlSettings, LeaderSettings, ServerSettings
from llmgw.domain.nodes import NodeTarget
from llmgw.errors import Unavailable
from llmgw.serve.control_plane import ControlPlane
from llmgw.serve.leading import Leading
from tests.fakes import clusters
from tests.fakes.electorate import Wire
from tests.fakes.stores import make_room
from tests.fakes.waiting import eventually

PATIENCE_S = 30.0
CORDON, READY = NodeTarget.CORDONED, NodeTarget.READY

pytestmark = pytest.mark.timeout(120)


@asynccontextmanager
async def server(store, tmp_path):
    """A control plane that leads on a store, and its agents' port."""
    settings = ServerSettings(
        agent_listen="127.0.0.1:0",
        state_dir=str(tmp_path / "state"),
        auth=AuthSettings(store=store, store_timeout_s=1.0),
        leader=LeaderSettings(ttl_s=3.0, every_s=0.5),
        control=ControlSettings(enabled=True, interval=0.2, journal_bytes=0),
        models=(clusters.model("m", min=1),),
    )
    leading = Leading(settings, environ={})
    plane = ControlPlane(settings, last_routes=None, elector=leading.elector, store=leading.store)
    await leading.start()
    await plane.start()
    try:
        yield plane
    finally:
        await plane.close()
        await leading.close()


def say(plane, target, *, reason=""):
    return plane.shown.flags.set_node_state("n1", target=target, reason=reason, actor="ann")


def node(plane):
    return next(view for view in plane.reconciler.nodes() if view.node_id == "n1")


async def test_words_and_nodes_outlive_the_server(address, tmp_path, opened):
    async with server(address, tmp_path) as plane:
        plane.reconciler.register(clusters.facts("n1"), ())
        await say(plane, CORDON, reason="new fan")
        await plane.shown.rolls.roll("m", may_interrupt=True, actor="ann")
        store = await opened(address, may_migrate=False)

        async def is_seen():
            return any(row.seen_at is not None for row in await store.nodes.all())

        for _ in range(100):
            if await is_seen():
                break
            await asyncio.sleep(0.1)
        assert await is_seen()
    async with server(address, tmp_path) as plane:
        assert plane.reconciler.status().control.settling_left_s is not None
        assert "m" in plane.reconciler.instructions.rolls_now()
        plane.reconciler.register(clusters.facts("n1"), ())
        assert (node(plane).state, node(plane).flag_reason) == ("cordoned", "new fan")
        assert node(plane).flag_actor == "ann"
        await eventually(
            lambda: plane.reconciler.status().control.settling_left_s is None, within_s=PATIENCE_S
        )
        await say(plane, READY)
    async with server(address, tmp_path) as plane:
        plane.reconciler.register(clusters.facts("n1"), ())
        assert node(plane).state == "ready"


async def test_a_word_is_refused_in_time_while_the_store_is_away_and_heard_again_after(
    postgres, tmp_path
):
    async with Wire(postgres.port) as wire:
        store = make_room(postgres).replace(f":{postgres.port}/", f":{wire.port}/")
        async with server(store, tmp_path) as plane:
            plane.reconciler.register(clusters.facts("n1"), ())
            wire.cut()
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(Unavailable):
                    await say(plane, CORDON, reason="new fan")
            assert node(plane).state == "ready"
            wire.mend()
            await eventually(lambda: plane.lead().is_leader, within_s=PATIENCE_S)
            for _ in range(20):
                try:
                    await say(plane, CORDON, reason="again")
                except Unavailable:
                    await asyncio.sleep(0.5)
                else:
                    break
            assert (node(plane).state, node(plane).flag_reason) == ("cordoned", "again")
