"""Nothing secret is in what is handed on, and it still replays."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.control.reconciler.deciding import decide
from llmgw.control.recorder import recordings, redacting, replaying
from llmgw.control.recorder.recordings import Pass
from llmgw.control.recorder.redacting import Redactor
from llmgw.domain.replicas import ShardState
from tests.fakes import clusters, stirred
from tests.fakes.random_clusters import Dice

SOME = settings(max_examples=40, deadline=None, derandomize=True, database=None)
SEEDS = st.integers(min_value=0, max_value=2**32)

CANARY = "canary-9f31c2aa"


def recorded(snapshot, decision=None, *, number=1):
    decision = decision or decide(snapshot)
    one = Pass(number, at=1000.0 + number, snapshot=snapshot, decision=decision)
    (found,) = recordings.read([recordings.head(), recordings.line(one, after=None)])
    return found


def with_model(*, source="/weights/m.gguf", labels=(), **profile):
    node = clusters.node("n1", labels=dict(labels))
    model = clusters.model("m", clusters.profile(**profile), source=source)
    return clusters.snapshot(model, on=clusters.cluster(node))


def failed(**shard):
    """A cluster in which an engine has just failed."""
    snapshot = with_model()
    decided = decide(snapshot)
    on = clusters.after(snapshot.cluster, decided.actions, now=snapshot.now)
    (replica,) = on.replicas.values()
    ended = replace(replica.shards[0], state=ShardState.FAILED, **shard)
    replica = replace(replica, shards=(ended,))
    return replace(snapshot, cluster=replace(on, replicas={replica.replica_id: replica}))


PLACES = {
    "environment": with_model(env={"HF_TOKEN": CANARY}),
    "argument after an option": with_model(args=("--api-key", CANARY)),
    "argument in one word": with_model(args=(f"--hf-token={CANARY}", "--x=1")),
    "credentials of a source": with_model(source=f"https://user:{CANARY}@host/m.gguf"),
    "query of a source": with_model(source=f"https://host/m.gguf?sig={CANARY}&x=1"),
    "label of a telling name": with_model(labels={"bmc-password": CANARY}),
    "last output": failed(last_output=(f"key is {CANARY}",)),
    "the environment in an error": replace(
        failed(error=f"cannot log in with {CANARY}"),
        catalog=with_model(env={"K": CANARY}).catalog,
    ),
    "a token of a known shape": failed(error=f"401 for hf_{CANARY.replace('-', '')}"),
}


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_is_left_wherever_it_stood(place):
    snapshot = PLACES[place]
    canary = CANARY.replace("-", "") if "shape" in place else CANARY
    real = recorded(snapshot)
    assert canary in json.dumps([real.snapshot, real.decided])
    copy = redacting.recording(real, Redactor())
    assert canary not in json.dumps([copy.snapshot, copy.decided])
    assert replaying.replay(copy).is_same


@pytest.mark.parametrize("address", ["10.20.30.40", "fe80:1:2:3:4:5:6:7", "fd00::1:7"])
def test_addresses_of_machines_are_left_out_and_stay_equal(address):
    on = clusters.cluster(
        clusters.node("n1", mgmt_addr=address), clusters.node("n2", mgmt_addr=address)
    )
    real = recorded(clusters.snapshot(clusters.model("m"), on=on))
    copy = redacting.recording(real, Redactor())
    assert address not in json.dumps([copy.snapshot, copy.decided])
    nodes = copy.read().cluster.nodes.values()
    assert len({node.facts.mgmt_addr for node in nodes}) == 1


def test_a_pass_that_was_decided_otherwise_stays_so_without_its_secrets():
    snapshot = with_model(env={"HF_TOKEN": CANARY})
    real = recorded(snapshot, replace(decide(snapshot), refusals={"m": f"no {CANARY}"}))
    copy = redacting.recording(real, Redactor())
    assert CANARY not in json.dumps([copy.snapshot, copy.decided])
    assert not replaying.replay(copy).is_same


def test_a_running_replica_of_the_profile_is_not_stale_for_its_secrets():
    snapshot = with_model(env={"HF_TOKEN": CANARY})
    on = clusters.after(snapshot.cluster, decide(snapshot).actions, now=snapshot.now)
    copy = redacting.recording(recorded(replace(snapshot, cluster=on)), Redactor()).read()
    (replica,) = copy.cluster.replicas.values()
    model = copy.catalog.models["m"]
    assert replica.profile_fp == model.profiles[0].fingerprint(model=model)


@SOME
@given(SEEDS)
def test_what_is_redacted_replays(seed):
    redactor = Redactor()
    copies = [
        redacting.recording(recorded(stirred.snapshot(Dice(seed + i)), number=i + 1), redactor)
        for i in range(2)
    ]
    read = list(recordings.read(recordings.lines(copies)))
    assert [one.snapshot for one in read] == [one.snapshot for one in copies]
    assert all(replaying.replay(one).is_same for one in read)


def test_what_is_no_secret_stays_readable():
    real = recorded(
        with_model(args=("--ctx-size", "4096", "--max-tokens", "12"), labels={"rack": "a7"})
    )
    copy = redacting.recording(real, Redactor()).read()
    assert copy.catalog.models["m"].profiles[0].args == ("--ctx-size", "4096", "--max-tokens", "12")
    assert copy.cluster.nodes["n1"].facts.labels == {"rack": "a7"}
    assert copy.catalog.models["m"].source == "/weights/m.gguf"


def test_settings_are_redacted_by_their_names():
    redactor = Redactor()
    tree = {"endpoints": [{"id": "a", "api_key": CANARY}], "note": f"asked with {CANARY}"}
    redactor.learn(tree)
    assert CANARY not in json.dumps(redactor.redacted(tree))
    assert redactor.redacted(tree)["endpoints"][0]["id"] == "a"
