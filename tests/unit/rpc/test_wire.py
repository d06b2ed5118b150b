"""What is said on one side of the wire is what the other side hears."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.domain.fetch_status import FetchState, FetchStatus
from llmgw.domain.nodes import (
    EngineInstall,
    Fabric,
    Gpu,
    GpuGauges,
    HeartbeatFacts,
    Host,
    InstallState,
    LocalWeights,
    NodeFacts,
    NumaNode,
    Storage,
)
from llmgw.domain.replicas import (
    FetchProgress,
    LaunchProfile,
    RunningShard,
    ShardReport,
    ShardSpec,
    ShardState,
)
from llmgw.domain.work import ShardWork
from llmgw.errors import Invalid
from llmgw.rpc import texts, wire_nodes, wire_shards
from llmgw.rpc.v1 import agent_pb2 as pb

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TERM = st.integers(0, 2**64 - 1)
PAIRS = st.dictionaries(TEXT, TEXT, max_size=3)


def some(values):
    return st.lists(values, max_size=3).map(tuple)


def maybe(values):
    return st.none() | values


WEIGHTS = st.builds(LocalWeights, path=TEXT, size_bytes=INT64, is_shared=st.booleans())
STORAGE = st.builds(
    Storage, path=TEXT, free_bytes=INT64, total_bytes=INT64, is_shared=st.booleans()
)
FABRICS = st.builds(Fabric, name=TEXT, hcas=some(TEXT), rate_gbps=maybe(INT32), link_layer=TEXT)
GPUS = st.builds(
    Gpu,
    index=INT32,
    uuid=TEXT,
    name=TEXT,
    memory_total_mib=maybe(INT32),
    memory_used_mib=maybe(INT32),
    utilization_percent=maybe(INT32),
    compute_capability=TEXT,
    numa_node=maybe(INT32),
    pci_bus_id=TEXT,
    driver_version=TEXT,
    cuda_version=TEXT,
    nvlink_peers=maybe(some(INT32)),
    ecc_errors=maybe(INT64),
    temperature_c=maybe(INT32),
    power_watts=maybe(INT32),
    power_limit_watts=maybe(INT32),
    mig_instances=some(TEXT),
    problems=some(TEXT),
)
GAUGES = st.builds(
    GpuGauges,
    utilization_percent=maybe(INT32),
    temperature_c=maybe(INT32),
    power_watts=maybe(INT32),
)
NUMA = st.builds(NumaNode, number=INT32, cpus=TEXT, memory_total_mb=maybe(INT64))
HOSTS = st.builds(
    Host,
    os_id=TEXT,
    os_version=TEXT,
    os_codename=TEXT,
    arch=TEXT,
    cpu_flags=some(TEXT),
    nvidia_driver=TEXT,
    cpu_model=TEXT,
    cpu_threads=maybe(INT32),
    numa_nodes=some(NUMA),
)
INSTALLS = st.builds(
    EngineInstall,
    engine=TEXT,
    version=TEXT,
    variant=TEXT,
    state=st.sampled_from(InstallState),
    detail=TEXT,
    warning=TEXT,
)
STATUSES = st.builds(
    FetchStatus,
    source=TEXT,
    name=TEXT,
    state=st.sampled_from(FetchState),
    path=st.just(""),  # of no use elsewhere
    done_bytes=INT64,
    total_bytes=maybe(INT64),
    bytes_per_s=maybe(st.floats(0, 1e12)),
    error=TEXT,
    is_ordered=st.booleans(),
)
FACTS = st.builds(
    NodeFacts,
    node_id=TEXT,
    hostname=TEXT,
    mgmt_addr=TEXT,
    agent_version=TEXT,
    labels=PAIRS,
    gpus=some(GPUS),
    fabrics=some(FABRICS),
    fabric_problems=some(TEXT),
    warnings=some(TEXT),
    host=HOSTS,
    memory_total_mb=maybe(INT64),
    storage=some(STORAGE),
    weights=some(WEIGHTS),
    engine_versions=PAIRS,
    engines_probed=st.booleans(),
    engine_installs=some(INSTALLS),
    port_range=maybe(st.tuples(INT32, INT32)),
    heartbeat_s=maybe(st.integers(0, 10**6).map(lambda duration_ms: duration_ms / 1000)),
    launch_modes=PAIRS,
    fetches=some(STATUSES),
)
DURATIONS_S = st.integers(0, 10**9).map(lambda duration_ms: duration_ms / 1000)
WORK = st.builds(
    ShardWork,
    shard_id=TEXT,
    cpu_time_s=maybe(DURATIONS_S),
    gpu_utilization_percent=maybe(INT32),
    cpu_wait_s=maybe(DURATIONS_S),
)
BEATS = st.builds(
    HeartbeatFacts,
    gpu_memory_used_mib=st.dictionaries(INT32, INT32, max_size=3),
    new_problems=some(TEXT),
    storage=some(STORAGE),
    memory_total_mb=maybe(INT64),
    weights=maybe(some(WEIGHTS)),
    engine_versions=maybe(PAIRS),
    engine_installs=maybe(some(INSTALLS)),
    shard_work=some(WORK),
    gpu_gauges=st.dictionaries(INT32, GAUGES, max_size=3),
    gpus=maybe(some(GPUS)),
    fabrics=maybe(some(FABRICS)),
    fabric_problems=some(TEXT),
    warnings=maybe(some(TEXT)),
    fetches=maybe(some(STATUSES)),
)
RUNNING = st.builds(
    RunningShard,
    replica_id=TEXT,
    shard_id=TEXT,
    state=st.sampled_from(ShardState),
    model=TEXT,
    profile=TEXT,
    rank=INT32,
    nnodes=INT32,
    gpu_indices=some(INT32),
    hcas=some(TEXT),
    http_port=INT32,
    leader_addr=TEXT,
    leader_port=INT32,
    pool=TEXT,
    fabric=TEXT,
    profile_fp=TEXT,
)
FETCHES = st.builds(FetchProgress, source=TEXT, done_bytes=INT64, total_bytes=maybe(INT64))
REPORTS = st.builds(
    ShardReport,
    node_id=TEXT,
    replica_id=TEXT,
    shard_id=TEXT,
    state=st.sampled_from(ShardState),
    error=TEXT,
    exit_code=maybe(INT32),
    last_output=some(TEXT),
    fetch=maybe(FETCHES),
    is_drained=st.booleans(),
)
PROFILES = st.builds(
    LaunchProfile,
    name=TEXT,
    engine=TEXT,
    model_path=TEXT,
    served_model_name=TEXT,
    gpu_class=TEXT,
    tp=INT32,
    pp=INT32,
    nodes=INT32,
    gpus_per_node=INT32,
    args=some(TEXT),
    env=PAIRS,
    capabilities=some(TEXT),
    context_length=maybe(INT32),
)
SPECS = st.builds(
    ShardSpec,
    replica_id=TEXT,
    shard_id=TEXT,
    profile=PROFILES,
    http_port=INT32,
    rank=INT32,
    nnodes=INT32,
    leader_addr=TEXT,
    leader_port=INT32,
    gpu_indices=some(INT32),
    hcas=some(TEXT),
    mgmt_interface=TEXT,
    startup_timeout_s=st.integers(0, 10**9).map(lambda ms: ms / 1000),
    pool=TEXT,
    fabric=TEXT,
    profile_fp=TEXT,
)


def over_the_wire(message):
    return type(message).FromString(message.SerializeToString())


@given(facts=FACTS, running=some(RUNNING), term=TERM)
def test_a_registration_arrives_as_it_was_sent(facts, running, term):
    register = over_the_wire(
        wire_nodes.pack_register(facts, running=running, term=term, instance="ab")
    ).register
    assert wire_nodes.unpack_facts(register) == facts
    assert wire_nodes.unpack_running(register) == running
    assert register.term == term


@given(beat=BEATS)
def test_a_heartbeat_arrives_as_it_was_sent(beat):
    message = over_the_wire(wire_nodes.pack_heartbeat(node_id="node01", beat=beat))
    assert message.heartbeat.node_id == "node01"
    assert wire_nodes.unpack_heartbeat(message.heartbeat) == beat


@given(report=REPORTS)
def test_a_report_arrives_as_it_was_sent(report):
    message = over_the_wire(wire_shards.pack_report(report))
    assert wire_shards.unpack_report(message.shard, node_id=report.node_id) == report


@given(spec=SPECS, term=TERM)
def test_a_start_order_arrives_as_it_was_sent(spec, term):
    message = over_the_wire(wire_shards.pack_start(spec, term=term))
    assert wire_shards.unpack_start(message.start) == spec
    assert message.start.term == term


def test_the_values_under_test_use_every_field():
    """A field added to a value and forgotten here would pass all round trips with its default."""
    for strategy, value in (
        (FACTS, NodeFacts),
        (BEATS, HeartbeatFacts),
        (WORK, ShardWork),
        (RUNNING, RunningShard),
        (REPORTS, ShardReport),
        (SPECS, ShardSpec),
        (PROFILES, LaunchProfile),
        (GPUS, Gpu),
    ):
        assert set(strategy.wrapped_strategy.kwargs) == set(value.__dataclass_fields__), value


def test_a_report_belongs_to_the_node_whose_stream_it_came_on():
    claimed = ShardReport(node_id="node02", replica_id="r", shard_id="r.0", state=ShardState.FAILED)
    report = wire_shards.unpack_report(wire_shards.pack_report(claimed).shard, node_id="node01")
    assert report.node_id == "node01"


def test_states_are_mapped_by_name_and_none_is_left_out():
    names = {name.removeprefix("SHARD_STATE_") for name in pb.ShardState.keys()}  # noqa: SIM118
    assert names - {"UNSPECIFIED"} == {state.name for state in ShardState}


@pytest.mark.parametrize("number", [0, 99], ids=["unspecified", "from a newer peer"])
def test_a_state_that_does_not_exist_is_refused(number):
    register = pb.Register(running_shards=[pb.RunningShard(shard_id="r.0", state=number)])
    with pytest.raises(Invalid, match=r"r\.0"):
        wire_nodes.unpack_running(register)


def test_a_file_name_that_is_no_unicode_does_not_stop_a_registration():
    odd = b"/models/caf\xe9.gguf".decode("utf-8", "surrogateescape")
    facts = NodeFacts(node_id="node01", weights=(LocalWeights(path=odd, size_bytes=1),))
    register = over_the_wire(
        wire_nodes.pack_register(facts, running=(), term=0, instance="")
    ).register
    assert wire_nodes.unpack_facts(register).weights[0].path == "/models/caf?.gguf"


def test_a_tail_keeps_the_newest_lines_that_fit():
    lines = [f"{n} " + "x" * 10_000 for n in range(1000)]
    kept = texts.cap_lines(lines)
    assert kept[-1].startswith("999 ")
    assert kept[0].startswith(f"{1000 - len(kept)} ")
    assert max(map(len, kept)) == texts.MAX_LINE_CHARS
    assert sum(map(len, kept)) <= texts.MAX_TAIL_CHARS
