"""What a node says arrives, what it is told is done, and neither is lost or mixed up."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from llmgw.control.agents import connections
from llmgw.domain.nodes import Fabric, Gpu, HeartbeatFacts, LocalWeights, NodeFacts
from llmgw.domain.replicas import (
    FetchProgress,
    LaunchProfile,
    RunningShard,
    ShardReport,
    ShardSpec,
    ShardState,
)
from llmgw.errors import DeadlinePassed, EngineFailed, NotConnected, Unavailable, Unknown
from llmgw.rpc.v1 import agent_pb2 as pb
from tests.fakes.rpc_stage import Agent, ControlPlane, dialling, running
from tests.fakes.waiting import eventually

NODE = NodeFacts(
    node_id="node01",
    hostname="node01.lab",
    mgmt_addr="10.0.0.5",
    labels={"rack": "7"},
    gpus=(Gpu(index=0, uuid="GPU-1", name="NVIDIA H100", memory_total_mib=81559),),
    fabrics=(Fabric(name="ib-a", hcas=("mlx5_0", "mlx5_1"), rate_gbps=400),),
    weights=(LocalWeights(path="/w/a.gguf", size_bytes=7),),
    engine_versions={"llamacpp": "b1"},
    engines_probed=True,
    port_range=(20000, 20099),
)
SPEC = ShardSpec(
    replica_id="llama-1",
    shard_id="llama-1.0",
    profile=LaunchProfile(
        name="cpu", engine="llamacpp", model_path="/w/a.gguf", served_model_name="llama"
    ),
    http_port=20000,
    startup_timeout_s=12.5,
)


def shard(shard_id="llama-1.0", state=ShardState.READY):
    return RunningShard(
        replica_id=shard_id.rpartition(".")[0],
        shard_id=shard_id,
        state=state,
        model="llama",
        profile="cpu",
        http_port=20000,
        hcas=("mlx5_0",),
        pool="ib-a/h100-80g",
        profile_fp="v1:00",
    )


def report(state, shard_id="llama-1.0", **fields):
    return ShardReport(
        node_id="node01",
        replica_id=shard_id.rpartition(".")[0],
        shard_id=shard_id,
        state=state,
        **fields,
    )


@pytest.fixture
async def plane():
    async with running(ControlPlane()) as plane:
        yield plane


@pytest.fixture
async def agent(plane):
    agent = Agent(plane.address)
    async with dialling(agent):
        await plane.registered()
        yield agent


# Registering


async def test_a_registration_carries_the_inventory_and_every_live_or_pending_shard(plane):
    agent = Agent(plane.address)
    agent.facts.node = NODE
    agent.orders.alive = [shard(), shard("llama-2.0", ShardState.PENDING)]
    async with dialling(agent):
        await plane.registered()
    told = replace(NODE, heartbeat_s=0.05)
    assert plane.fleet.of("register") == [("register", told, tuple(agent.orders.alive))]


async def test_a_node_that_runs_nothing_is_announced_too(plane, agent):
    ((_, facts, shards),) = plane.fleet.of("register")
    assert (facts.node_id, shards) == ("node01", ())


async def test_shards_that_nobody_claims_are_stopped(plane):
    plane.fleet.unclaimed = ("old-1.0", "old-2.0")
    agent = Agent(plane.address)
    async with dialling(agent):
        await eventually(lambda: len(agent.orders.asked) == 2)
    assert agent.orders.asked == [("stop", "old-1.0"), ("stop", "old-2.0")]


async def test_a_registration_that_the_fleet_refuses_is_refused_with_its_reason(plane):
    plane.fleet.error = Unavailable("the catalog is being read")
    agent = Agent(plane.address)
    async with dialling(agent):
        await eventually(lambda: "the catalog is being read" in agent.refusal)
    assert plane.connections.node_ids() == frozenset()


async def test_a_node_that_cannot_be_believed_is_refused_before_the_fleet_hears_of_it(plane):
    agent = Agent(plane.address)
    agent.facts.node = replace(NODE, mgmt_addr="10.0.0.5:7443", gpus=NODE.gpus * 2)
    async with dialling(agent):
        await eventually(lambda: "neither an IP address nor a host name" in agent.refusal)
    assert "card 0 is listed twice" in agent.refusal
    assert plane.fleet.events == []


async def test_nonsense_under_way_is_refused_and_the_stream_goes_on(plane, agent, agent_log):
    agent.session.report(report(ShardState.PENDING, "../etc"))
    twice = pb.Heartbeat(node_id="node01", gpus_changed=True, gpus=[pb.GPU(), pb.GPU()])
    agent.session._outbox.put(pb.AgentMessage(heartbeat=twice))
    await eventually(lambda: len([k for event, k in agent_log if event == "message_refused"]) == 2)
    assert plane.fleet.of("report") == []
    assert not any(beat.gpus for _, _, beat in plane.fleet.of("heartbeat"))
    assert agent.session.status.sessions == 1


# Heartbeats


async def test_heartbeats_go_on(plane, agent):
    await eventually(lambda: len(plane.fleet.of("heartbeat")) >= 3)
    node_ids = {event[1] for event in plane.fleet.of("heartbeat")}
    assert node_ids == {"node01"}


async def test_a_beat_repeats_nothing_that_is_known_and_says_a_change_once(plane, agent):
    await eventually(lambda: plane.fleet.of("heartbeat"))
    engines = {"sim": "1", "llamacpp": "b2"}
    agent.facts.reading = replace(agent.facts.reading, engine_versions=engines)
    await eventually(lambda: [b for _, _, b in plane.fleet.of("heartbeat") if b.engine_versions])
    heard = len(plane.fleet.of("heartbeat"))
    await eventually(lambda: len(plane.fleet.of("heartbeat")) > heard + 2)
    beats = [beat for _, _, beat in plane.fleet.of("heartbeat")]
    assert [b.engine_versions for b in beats if b.engine_versions is not None] == [engines]
    assert [b.weights for b in beats if b.weights is not None] == []
    assert all(b.storage == agent.facts.reading.storage for b in beats)


async def test_a_change_is_said_again_to_the_next_control_plane_that_does_not_know_it(plane, agent):
    engines = {"llamacpp": "b2"}

    def said():
        versions = [beat.engine_versions for _, _, beat in plane.fleet.of("heartbeat")]
        return [one for one in versions if one is not None]

    agent.facts.reading = replace(agent.facts.reading, engine_versions=engines)
    await eventually(said)
    plane.fleet.events.clear()
    plane.connections.end_all(Unavailable("try again"))
    await eventually(said)
    assert said() == [engines]


@pytest.mark.parametrize("trouble", ["hangs", "fails", "breaks"])
async def test_a_node_whose_tools_fail_still_beats(plane, agent, trouble):
    agent.facts.hang = trouble == "hangs"
    agent.facts.error = {
        "fails": EngineFailed("nvidia-smi ended with 9"),
        "breaks": KeyError("memory"),
    }.get(trouble)
    empty = ("heartbeat", "node01", HeartbeatFacts())
    await eventually(lambda: plane.fleet.events.count(empty) >= 2)
    readings = agent.facts.readings
    assert len(plane.fleet.of("register")) == 1, "the session goes on"
    if trouble == "hangs":
        await asyncio.sleep(0.2)
        assert agent.facts.readings == readings, "a second reading was begun beside a hanging one"


async def test_a_node_that_is_not_known_any_more_registers_again(plane, agent):
    plane.fleet.forgotten.add("node01")
    await eventually(lambda: "register again" in agent.refusal)
    plane.fleet.forgotten.clear()
    await eventually(lambda: len(plane.fleet.of("register")) == 2)
    first, again = plane.fleet.of("register")
    assert first == again, "whole, as the first time"


# Orders


async def test_orders_are_carried_out_as_given_and_in_order(plane, agent):
    plane.dispatcher.start("node01", SPEC)
    plane.dispatcher.drain("node01", "llama-1.0")
    plane.dispatcher.stop("node01", "llama-1.0")
    await eventually(lambda: len(agent.orders.asked) == 3)
    assert agent.orders.asked == [
        ("start", SPEC),
        ("drain", "llama-1.0"),
        ("stop", "llama-1.0"),
    ]


@pytest.mark.parametrize("order", ["start", "stop", "drain"])
async def test_an_order_to_a_node_without_a_stream_says_so(plane, order):
    with pytest.raises(NotConnected, match="node09"):
        getattr(plane.dispatcher, order)("node09", SPEC if order == "start" else "llama-1.0")


async def test_a_start_that_is_refused_is_reported_as_failed_and_the_stream_goes_on(plane, agent):
    agent.orders.refuse.add("llama-1.0")
    plane.dispatcher.start("node01", SPEC)
    await eventually(lambda: plane.fleet.of("report"))
    ((_, failed),) = plane.fleet.of("report")
    assert (failed.shard_id, failed.state) == ("llama-1.0", ShardState.FAILED)
    assert "llama-1.0 cannot be started here" in failed.error
    assert agent.session.status.sessions == 1


async def test_messages_of_a_newer_peer_are_counted_and_passed_over(plane, agent):
    connection = plane.connections.find("node01")
    connection.send(pb.ControlMessage())
    connection.send(pb.ControlMessage())
    plane.dispatcher.drain("node01", "llama-1.0")
    await eventually(lambda: agent.orders.asked)
    assert agent.session.status.ignored_messages == 2
    assert agent.session.status.sessions == 1


async def test_a_node_that_does_not_read_is_cut_off_and_nothing_is_said_to_be_sent(plane, agent):
    connection = plane.connections.find("node01")
    for _ in range(connections.LIMIT):
        plane.dispatcher.drain("node01", "llama-1.0")
    with pytest.raises(NotConnected):
        plane.dispatcher.drain("node01", "llama-1.0")
    assert not connection.is_open
    await eventually(lambda: "does not read" in agent.refusal)
    await eventually(lambda: len(plane.fleet.of("register")) == 2)


# Reports


async def test_reports_arrive_in_order_with_all_that_is_known(plane, agent):
    said = [
        report(
            ShardState.PENDING,
            fetch=FetchProgress(source="http://w", done_bytes=5, bytes_per_s=2.5),
        ),
        report(ShardState.STARTING),
        report(ShardState.FAILED, error="died", exit_code=-9, last_output=("a", "b")),
    ]
    for one in said:
        agent.session.report(one)
    await eventually(lambda: len(plane.fleet.of("report")) == 3)
    assert [event[1] for event in plane.fleet.of("report")] == said


async def test_a_node_cannot_report_for_another(plane, agent):
    agent.session.report(replace(report(ShardState.READY), node_id="node02"))
    await eventually(lambda: plane.fleet.of("report"))
    assert plane.fleet.of("report")[0][1].node_id == "node01"


async def test_a_report_in_a_state_that_does_not_exist_is_refused_and_the_stream_goes_on(
    plane, agent, agent_log
):
    agent.session._outbox.put(pb.AgentMessage(shard=pb.ShardStatus(shard_id="llama-1.0", state=99)))
    await eventually(lambda: [k for event, k in agent_log if event == "message_refused"])
    assert plane.fleet.of("report") == []
    assert agent.session.status.sessions == 1


async def test_the_end_of_a_shard_is_told_after_the_silence_and_nothing_stale_is(plane, agent):
    await plane.listener.close()
    await eventually(lambda: not agent.session.status.is_registered)
    agent.orders.alive = [shard("llama-3.0")]
    agent.session.report(report(ShardState.LOADING, "llama-2.0"))
    agent.session.report(report(ShardState.FAILED, "llama-3.0", error="an earlier life"))
    agent.session.report(report(ShardState.FAILED, error="died meanwhile"))
    async with running(ControlPlane(port=plane.port)) as again:
        await eventually(lambda: again.fleet.of("report"))
        await eventually(lambda: len(again.fleet.of("heartbeat")) > 1)
        assert [event[1].error for event in again.fleet.of("report")] == ["died meanwhile"]
        kinds = [event[0] for event in again.fleet.events]
        assert kinds[:2] == ["register", "report"]


# Logs


async def test_five_questions_at_once_get_their_own_answers(plane, agent):
    agent.orders.logs = {f"s.{n}": tuple(f"{n}:{i}" for i in range(10)) for n in range(5)}
    tails = await asyncio.gather(
        *(plane.dispatcher.logs(node_id="node01", source=f"s.{n}", lines=n + 1) for n in range(5))
    )
    for n, tail in enumerate(tails):
        assert tail.lines == agent.orders.logs[f"s.{n}"][-(n + 1) :]
        assert tail.sources == tuple(agent.orders.logs)


async def test_an_unknown_log_is_an_error_and_not_an_empty_log(plane, agent):
    with pytest.raises(Unknown, match="no log 'nope'"):
        await plane.dispatcher.logs(node_id="node01", source="nope", lines=5)


async def test_a_log_too_long_for_a_message_keeps_its_newest_lines(plane, agent):
    agent.orders.logs["agent"] = tuple(f"{n} " + "x" * 100_000 for n in range(2000))
    tail = await plane.dispatcher.logs(node_id="node01", source="agent", lines=2000)
    assert tail.lines[-1].startswith("1999 ")
    assert agent.session.status.sessions == 1


async def test_a_node_that_does_not_answer_is_waited_for_in_vain_but_not_for_ever(plane, agent):
    agent.orders.log_sources = lambda: 1 / 0
    with pytest.raises(DeadlinePassed):
        await plane.dispatcher.logs(node_id="node01", source="agent", lines=5)


async def test_a_question_ends_with_the_stream(plane, agent):
    agent.orders.log_sources = lambda: 1 / 0
    asked = asyncio.create_task(plane.dispatcher.logs(node_id="node01", source="agent", lines=5))
    await asyncio.sleep(0.05)
    plane.connections.end_all(Unavailable("try again"))
    with pytest.raises(NotConnected):
        await asked
