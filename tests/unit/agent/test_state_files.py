"""State files survive everything that can happen to a file, and budgets of adopted shards."""

from __future__ import annotations

import json
import stat
from dataclasses import asdict, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.agent.supervisor import adoption, wording
from llmgw.agent.supervisor.adoption import Record
from llmgw.agent.supervisor.kinship import Identity
from llmgw.agent.supervisor.workdir import WorkDir
from llmgw.domain.nodes import NodeFacts
from llmgw.domain.replicas import LaunchProfile, ShardSpec, ShardState
from llmgw.rpc import wire_nodes

SPEC = ShardSpec(
    replica_id="tiny-1",
    shard_id="tiny-1.0",
    profile=LaunchProfile(
        name="cpu",
        engine="sim",
        model_path="/m",
        served_model_name="tiny",
        args=("--a", "b"),
        env={"TOKEN": "secret"},
        capabilities=("embeddings",),
        context_length=64,
    ),
    http_port=20001,
    gpu_indices=(0, 1),
    startup_timeout_s=600.0,
)
FULL = replace(
    SPEC,
    rank=1,
    nnodes=2,
    leader_addr="10.0.0.1",
    leader_port=20002,
    hcas=("mlx5_0",),
    mgmt_interface="eth0",
    pool="ib/h100-80g",
    fabric="ib",
    profile_fp="v1:0",
)
RECORD = Record(
    spec=SPEC,
    boot_id="boot",
    started_at=1000.0,
    processes=(Identity("side", 100, 7), Identity("engine", 101, 8)),
    is_launched=True,
)

texts = st.text(max_size=8)
numbers = st.integers(min_value=0, max_value=2**31 - 1)
identities = st.builds(
    Identity, name=texts, pid=st.integers(min_value=2, max_value=2**22), start_ticks=numbers
)
profiles = st.builds(
    LaunchProfile,
    name=texts,
    engine=texts,
    model_path=texts,
    served_model_name=texts,
    args=st.lists(texts, max_size=3).map(tuple),
    env=st.dictionaries(texts, texts, max_size=3),
    context_length=st.none() | numbers,
)
records = st.builds(
    Record,
    spec=st.builds(
        ShardSpec,
        replica_id=texts,
        shard_id=st.just("tiny-1.0"),
        profile=profiles,
        http_port=numbers,
        gpu_indices=st.lists(numbers, max_size=3).map(tuple),
    ),
    boot_id=texts,
    started_at=st.floats(allow_nan=False, allow_infinity=False),
    processes=st.lists(identities, max_size=3).map(tuple),
    is_launched=st.booleans(),
    ready_at=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    is_draining=st.booleans(),
    is_stopping=st.booleans(),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("state") / "shard-tiny-1.0.json"


@given(record=records)
def test_what_is_saved_is_loaded(path, record):
    adoption.save(path, record)
    assert adoption.load(path, shard_id="tiny-1.0") == record


@given(content=st.binary(max_size=200))
def test_no_content_of_a_file_is_an_error(path, content):
    path.write_bytes(content)
    assert adoption.load(path, shard_id="tiny-1.0") is None


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000,
        json.dumps(asdict(RECORD)).replace(f'"pid": {RECORD.processes[0].pid}', '"pid": 1e999'),
    ],
    ids=["nests without end", "a pid without end"],
)
def test_what_no_agent_wrote_keeps_no_agent_from_starting(path, content):
    path.write_text(content)
    assert adoption.load(path, shard_id="tiny-1.0") is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)


@given(
    key=st.sampled_from(["spec", "boot_id", "started_at", "processes", "ready_at"]),
    value=json_values,
)
def test_no_wrong_type_in_a_file_is_an_error(path, key, value):
    stored = json.loads(json.dumps(asdict(RECORD))) | {key: value}
    path.write_text(json.dumps(stored))
    found = adoption.load(path, shard_id="tiny-1.0")
    assert found is None or all(one.pid > 1 for one in found.processes)


ODD = (None, True, -1, 10**30, 1e999, float("nan"), 3.7, "x", "\udcff", [], {}, [None], ["a"])
ODD = (*ODD, [[1]], {"a": 1})


def places(stored, above=()):
    """Where there is a value in a file, each folder of them before what is in it."""
    inner = stored.items() if isinstance(stored, dict) else enumerate(stored)
    for key, value in inner:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from places(value, (*above, key))


WRITTEN = json.dumps(asdict(replace(RECORD, spec=FULL)))
PLACES = list(places(json.loads(WRITTEN)))


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_what_is_believed_of_a_file_can_be_said_to_a_control_plane(path, place):
    """Else an agent would fail at each registration, for as long as the file lies there."""
    for odd in ODD:
        stored = json.loads(WRITTEN)
        *above, key = place
        inner = stored
        for one in above:
            inner = inner[one]
        inner[key] = odd
        path.write_text(json.dumps(stored))
        found = adoption.load(path, shard_id="tiny-1.0")
        if found is not None:
            listed = [wording.running(found.spec, ShardState.READY)]
            facts = NodeFacts(node_id="n")
            register = wire_nodes.pack_register(facts, running=listed, term=0, instance="i")
            assert register.SerializeToString()
            assert adoption.startup_budget_s(found, now=5.0, at_least_s=30.0) >= 30.0


def test_every_field_of_an_order_is_read_as_its_type_says(path):
    adoption.save(path, RECORD)
    assert adoption.load(path, shard_id="tiny-1.0") == RECORD
    filled = {one.name: getattr(FULL, one.name) for one in fields(ShardSpec)}
    assert all(filled.values()), "a field that is not read would come back as its default"
    adoption.save(path, replace(RECORD, spec=FULL))
    assert adoption.load(path, shard_id="tiny-1.0").spec == FULL


def test_fields_of_a_newer_agent_are_passed_over(path):
    stored = json.loads(json.dumps(asdict(RECORD))) | {"new": 1}
    stored["spec"]["newer"] = 2
    stored["spec"]["profile"]["newest"] = 3
    path.write_text(json.dumps(stored))
    assert adoption.load(path, shard_id="tiny-1.0") == RECORD


def test_a_file_that_tells_of_another_shard_is_not_believed(path):
    adoption.save(path, RECORD)
    assert adoption.load(path, shard_id="other-1.0") is None


def test_a_state_file_is_for_its_owner_alone(path):
    adoption.save(path, RECORD)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    adoption.remove(path)
    adoption.remove(path)
    assert not path.exists()


def test_the_engine_is_the_last_process_once_all_were_started():
    assert RECORD.engine == Identity("engine", 101, 8)
    assert replace(RECORD, is_launched=False).engine is None


@pytest.mark.parametrize(
    ("record", "now", "expected"),
    [
        pytest.param(RECORD, 1100.0, 500.0, id="what-is-left"),
        pytest.param(RECORD, 9000.0, 30.0, id="used-up"),
        pytest.param(RECORD, 10.0, 600.0, id="clock-went-back"),
        pytest.param(replace(RECORD, ready_at=1050.0), 9000.0, 600.0, id="was-ready"),
    ],
)
def test_an_adopted_shard_has_the_rest_of_its_budget(record, now, expected):
    assert adoption.startup_budget_s(record, now=now, at_least_s=30.0) == expected


def test_the_work_folder_finds_its_state_files(tmp_path):
    folder = WorkDir(str(tmp_path / "work"))
    try:
        adoption.save(folder.state_file("tiny-1.0"), RECORD)
        assert list(folder.state_files()) == ["tiny-1.0"]
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o750
    finally:
        folder.close()
