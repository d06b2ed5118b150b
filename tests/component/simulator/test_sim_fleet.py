"""A simulated fleet and a real control plane: nodes come, serve, suffer mishaps and leave."""

from __future__ import annotations

import asyncio
import os
import time

import httpx
import pytest

from llmgw.domain.replicas import ReplicaState
from llmgw.domain.routes import EndpointState
from llmgw.errors import Unknown
from llmgw.rpc import authority
from llmgw.simulator.mishaps import Kind, Rates
from llmgw.simulator.sim_node import Mood
from tests.fakes.simulated import control_plane, fleet, model
from tests.fakes.waiting import eventually

WIDE = model("wide", count=6, gpu_class="h100-80g", tp=4)
SMALL = model("small", count=10, engine="llamacpp")


def names(count):
    return [f"sim-{n:04}" for n in range(1, count + 1)]


def ready(control):
    return [r for r in control.reconciler.replicas() if r.state is ReplicaState.READY]


def serving(control):
    endpoints = control.routes.current().endpoints
    return [e for e in endpoints if e.state is EndpointState.READY]


async def all_in(there, count):
    await eventually(lambda: there.census().registered == count, f"{count} nodes are registered")


async def test_fifty_nodes_register_are_given_work_and_answer(tmp_path):
    async with (
        control_plane(tmp_path, WIDE, SMALL, expect=names(50)) as control,
        fleet(control, count=50) as there,
    ):
        await all_in(there, 50)
        await eventually(lambda: len(serving(control)) == 16, "all that is wanted serves")
        assert {view.state for view in control.reconciler.nodes()} == {"ready"}
        assert len(control.reconciler.nodes()) == 50
        now = there.census()
        assert (now.nodes, now.ever_registered, now.refusal) == (50, 50, "")
        assert now.shards["ready"] == 16
        assert now.moods.count(Mood.SERVING) + now.moods.count(Mood.IDLE) == 50
        beats = now.beats
        await eventually(lambda: there.census().beats >= beats + 50, "every node beats")
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
        async with httpx.AsyncClient(timeout=10) as client:
            for endpoint in serving(control):
                url = f"{endpoint.url}/v1/chat/completions"
                answer = await client.post(url, json={**body, "model": endpoint.models[0]})
                assert answer.status_code == 200


async def test_cards_that_are_in_use_are_shown_as_used(tmp_path):
    one = model("one", count=1, gpu_class="h100-80g", tp=8)
    async with (
        control_plane(tmp_path, one, expect=names(1)) as control,
        fleet(control, count=1, hardware=["h100-sxm"]),
    ):
        await eventually(lambda: serving(control), "it serves")

        def used():
            (node,) = control.reconciler.nodes()
            return [gpu.memory_used_mib for gpu in node.gpus]

        await eventually(lambda: min(used()) > 70_000, "each card tells its memory")
        (node,) = control.reconciler.nodes()
        assert all(not gpu.problems for gpu in node.gpus)


async def test_a_node_that_loses_power_boots_again_and_serves_again(tmp_path):
    rates = Rates(every_s={Kind.LOSS: 1.5}, lost_for_s=0.3)
    async with (
        control_plane(tmp_path, SMALL, expect=names(3)) as control,
        fleet(control, count=3, hardware=["cpu"], rates=rates, habits={"serves": False}) as there,
    ):
        await eventually(lambda: there.mishaps >= 2, "nodes lose power")
        await eventually(lambda: any("boots" in event for event in there.events), "one boots")
        assert "loses power for 0.3 s" in " ".join(there.events)
        await eventually(lambda: len(ready(control)) == 10, "all that is wanted serves again")


async def test_engines_go_on_while_a_node_flaps(tmp_path):
    rates = Rates(every_s={Kind.FLAP: 1.0}, flap_times=2, cut_s=0.2)
    async with (
        control_plane(tmp_path, SMALL, expect=names(4)) as control,
        fleet(control, count=4, hardware=["cpu"], rates=rates) as there,
    ):
        await eventually(lambda: len(serving(control)) == 10, "all that is wanted serves")
        before = {view.replica_id for view in control.reconciler.replicas()}
        seen = there.mishaps
        await eventually(lambda: there.mishaps >= seen + 3, "nodes flap")
        await all_in(there, 4)
        assert {view.replica_id for view in control.reconciler.replicas()} == before
        assert len(serving(control)) == 10


async def test_a_killed_engine_is_replaced(tmp_path):
    rates = Rates(every_s={Kind.CRASH: 0.4})
    async with (
        control_plane(tmp_path, SMALL, expect=names(3)) as control,
        fleet(control, count=3, hardware=["cpu"], rates=rates, habits={"serves": False}) as there,
    ):
        await eventually(lambda: len(ready(control)) > 5, "some serve")
        before = {view.replica_id for view in ready(control)}
        await eventually(lambda: there.mishaps >= 2, "engines are killed")

        def is_another():
            return {view.replica_id for view in ready(control)} - before

        await eventually(is_another, "another one serves")
        assert any("is killed" in event for event in there.events)


async def test_a_fleet_comes_back_to_a_control_plane_that_starts_anew_with_its_engines(tmp_path):
    async with (
        control_plane(tmp_path, SMALL, expect=names(20)) as control,
        fleet(control, count=20) as there,
    ):
        await eventually(lambda: len(serving(control)) == 10, "all that is wanted serves")
        before = {view.replica_id for view in control.reconciler.replicas()}
        await control.close()
        await eventually(lambda: not there.census().registered, "nobody is in")
        again = control_plane(tmp_path, SMALL, port=control.port, expect=names(20))
        async with again as another:
            await all_in(there, 20)
            await eventually(lambda: len(serving(another)) == 10, "all of it serves")
            assert {view.replica_id for view in another.reconciler.replicas()} == before


async def test_nobody_suffers_two_mishaps_at_once(tmp_path):
    rates = Rates(every_s={Kind.LOSS: 0.01, Kind.FLAP: 0.01}, lost_for_s=60.0, cut_s=60.0)
    async with control_plane(tmp_path) as control, fleet(control, count=5, rates=rates) as there:
        await eventually(lambda: there.mishaps == 5, "everybody has one")
        await asyncio.sleep(0.3)
        assert there.mishaps == 5
        now = there.census()
        assert (now.registered, now.ever_registered) == (0, 5)
        assert set(now.moods) <= {Mood.CUT, Mood.LOST}


async def test_a_fleet_leaves_within_seconds_whatever_it_is_doing(tmp_path):
    slow = {"load_s": 60.0}
    async with control_plane(tmp_path, SMALL, WIDE, expect=names(30)) as control:
        async with fleet(control, count=30, habits=slow) as there:
            await eventually(lambda: there.census().shards["loading"] > 3, "shards load")
            began = time.monotonic()
        assert time.monotonic() - began < 8
        await eventually(
            lambda: not any(view.is_connected for view in control.reconciler.nodes()),
            "the control plane sees them gone",
        )
    left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert [name for name in left if name.startswith(("sim", "session"))] == []


async def test_a_fleet_without_a_control_plane_says_why_nobody_is_in(tmp_path):
    async with control_plane(tmp_path) as control:
        pass  # its port is free by now
    async with fleet(control, count=2) as there:
        await eventually(lambda: there.census().refusal, "a reason")
        now = there.census()
        assert "nothing listens there" in now.refusal
        assert (now.registered, now.ever_registered) == (0, 0)
        assert set(now.moods) == {Mood.DIALLING}


def site(folder):
    """An authority in ``folder``, and a control plane's pair by it."""
    now = time.time()
    authority.init_ca(folder / "ca", now=now)
    issued = authority.issue_server(
        folder / "ca", out=folder / "s", name="cp", hosts=["127.0.0.1"], now=now
    )
    return {"ca": str(issued.ca), "cert": str(issued.cert), "key": str(issued.key)}


async def test_each_node_identifies_itself_by_a_certificate_of_its_own(tmp_path):
    async with control_plane(tmp_path, agent_tls=site(tmp_path)) as control:
        async with fleet(control, count=6, ca=tmp_path / "ca") as there:
            await all_in(there, 6)
            keys = {node._settings.tls.key for node in there._nodes}
        assert len(keys) == 6
        assert not any(map(os.path.exists, keys))
        async with fleet(control, count=1, prefix="bare") as bare:
            await eventually(lambda: bare.census().refusal, "it is refused without one")
            assert not bare.census().ever_registered


async def test_a_folder_without_an_authority_is_refused_before_anybody_dials(tmp_path):
    async with control_plane(tmp_path) as control:
        with pytest.raises(Unknown, match="make the authority first"):
            async with fleet(control, count=1, ca=tmp_path):
                pytest.fail("nobody may dial")
        assert control.reconciler.nodes() == ()
