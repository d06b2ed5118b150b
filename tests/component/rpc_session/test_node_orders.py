"""Orders about a node itself are answered thing by thing, and what is refused is seen to be."""

from __future__ import annotations

import asyncio

import pytest

from llmgw.domain.deeds import Deed, EngineWant
from llmgw.errors import DeadlinePassed, NotConnected
from tests.fakes.log_ear import heard
from tests.fakes.rpc_stage import Agent, ControlPlane, dialling, running
from tests.fakes.waiting import eventually

PATHS = ("/w/0123456789abcdef-a.gguf", "/w/mine.gguf")


@pytest.fixture
async def plane():
    async with running(ControlPlane(term=5)) as plane:
        yield plane


@pytest.fixture
async def agent(plane):
    async with dialling(Agent(plane.address)) as agent:
        await plane.registered()
        await eventually(lambda: agent.session.status.term == 5)
        yield agent


async def test_a_removal_is_answered_for_each_path_and_what_stays_is_logged(plane, agent):
    agent.upkeep.kept = {PATHS[1]: "it was not fetched by an agent"}
    with heard("llmgw.control.agents.service") as events:
        deeds = await plane.dispatcher.remove_weights("node01", PATHS)
    assert deeds == (
        Deed(PATHS[0], is_done=True),
        Deed(PATHS[1], is_done=False, detail="it was not fetched by an agent"),
    )
    assert agent.upkeep.asked == [("remove_weights", PATHS)]
    ((_, keys),) = [one for one in events if one[0] == "order_refused_by_node"]
    assert (keys["subject"], keys["reason"]) == (PATHS[1], "it was not fetched by an agent")


async def test_engines_are_ordered_by_version(plane, agent):
    wants = (EngineWant("llamacpp", "b10991"),)
    assert await plane.dispatcher.provision("node01", wants) == (Deed("llamacpp", is_done=True),)
    assert agent.upkeep.asked == [("provision", wants)]


@pytest.mark.parametrize(("is_cancelled", "word"), [(False, "fetch"), (True, "call off")])
async def test_weights_are_ordered_ahead_and_called_off(plane, agent, is_cancelled, word):
    sources = ("hf:org/model", "https://host/refused.gguf")
    agent.upkeep.kept = {sources[1]: "it has no weights_dir"}
    deeds = await plane.dispatcher.fetch_weights("node01", sources, is_cancelled=is_cancelled)
    assert deeds == (
        Deed(sources[0], is_done=True),
        Deed(sources[1], is_done=False, detail="it has no weights_dir"),
    )
    assert agent.upkeep.asked == [(word, sources)]


async def test_a_refused_fetch_tells_no_secret_of_its_source(plane, agent):
    plane.leadership.number = 4
    source = "https://user:pass@host/a.gguf?token=secret"
    (deed,) = await plane.dispatcher.fetch_weights("node01", [source], is_cancelled=False)
    assert (deed.subject, deed.is_done) == ("https://host/a.gguf", False)
    assert agent.upkeep.asked == []


async def test_an_engine_is_checked_where_it_is_and_each_program_answered_for(plane, agent):
    deeds = await plane.dispatcher.check_engine(node_id="node01", engine="sim")
    assert deeds == (Deed("sim --help", is_done=True, detail="5 options"),)
    assert agent.upkeep.asked == [("check_engine", "sim")]


async def test_a_check_by_a_deposed_leader_is_refused_with_the_reason(plane, agent):
    plane.leadership.number = 4
    (deed,) = await plane.dispatcher.check_engine(node_id="node01", engine="vllm")
    assert (deed.subject, deed.is_done) == ("vllm", False)
    assert "term 4 is over" in deed.detail
    assert agent.upkeep.asked == []


async def test_a_node_without_files_refuses_visibly(plane):
    agent = Agent(plane.address, node_id="sim01", has_upkeep=False)
    async with dialling(agent):
        await plane.registered("sim01")
        (deed,) = await plane.dispatcher.remove_weights("sim01", PATHS[:1])
    assert (deed.subject, deed.is_done) == (PATHS[0], False)
    assert "no files" in deed.detail


@pytest.mark.parametrize("order", ["stop", "drain"])
async def test_an_order_of_a_deposed_leader_is_refused_where_it_came_from(plane, agent, order):
    plane.leadership.number = 4
    with heard("llmgw.control.agents.service") as events:
        getattr(plane.dispatcher, order)("node01", "llama-1.0")
        await eventually(lambda: events)
    ((event, keys),) = events
    assert (event, keys["order"], keys["subject"]) == ("order_refused_by_node", order, "llama-1.0")
    assert "term 4 is over" in keys["reason"]
    assert agent.orders.asked == []
    (deed,) = await plane.dispatcher.remove_weights("node01", PATHS[:1])
    assert not deed.is_done
    assert "term 4 is over" in deed.detail


async def test_an_order_whose_node_is_lost_or_silent_ends(plane, agent):
    agent.upkeep.remove_weights = lambda paths, *, on_done: None
    connection = plane.connections.find("node01")
    asked = asyncio.create_task(plane.dispatcher.remove_weights("node01", PATHS))
    await eventually(lambda: agent.session.status.is_registered)
    await asyncio.sleep(0.1)
    connection.end(NotConnected("the test ends it"))
    with pytest.raises(NotConnected, match="ended before it answered"):
        await asked
    await plane.registered()
    with pytest.raises(DeadlinePassed, match="node01 did not answer within"):
        await plane.dispatcher.remove_weights("node01", PATHS)
    with pytest.raises(NotConnected, match="node09"):
        await plane.dispatcher.remove_weights("node09", PATHS)
