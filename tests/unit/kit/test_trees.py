"""What is kept of a value is the value."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.domain.nodes import Liveness
from llmgw.domain.replicas import Stray
from llmgw.domain.snapshots import Cluster, Snapshot
from llmgw.errors import Invalid
from llmgw.kit import trees
from tests.fakes import stirred
from tests.fakes.random_clusters import Dice

SEEDS = st.integers(min_value=0, max_value=2**32)
SOME = settings(max_examples=100, deadline=None, derandomize=True, database=None)


def through_json(tree):
    return json.loads(json.dumps(tree))


@SOME
@given(SEEDS)
def test_a_snapshot_comes_back_as_it_was(seed):
    snapshot = stirred.snapshot(Dice(seed))
    again = trees.decode(Snapshot, through_json(trees.encode(snapshot)))
    assert again == snapshot
    assert list(again.cluster.replicas) == list(snapshot.cluster.replicas)
    assert list(again.cluster.nodes) == list(snapshot.cluster.nodes)


@SOME
@given(SEEDS, SEEDS)
def test_a_difference_leads_from_any_snapshot_to_any_other(one, other):
    before, after = stirred.snapshot(Dice(one)), stirred.snapshot(Dice(other))
    change = through_json(trees.difference(before, after))
    assert trees.decode(Snapshot, trees.patched(trees.encode(before), change)) == after


def test_a_difference_tells_what_changed_and_nothing_else():
    snapshot = next(s for s in map(stirred.snapshot, map(Dice, range(50))) if s.cluster.nodes)
    node_id, node = next(iter(snapshot.cluster.nodes.items()))
    silent = replace(node, liveness=Liveness.LOST if node.liveness == "ready" else Liveness.READY)
    nodes = {**snapshot.cluster.nodes, node_id: silent}
    after = replace(snapshot, cluster=replace(snapshot.cluster, nodes=nodes))
    change = trees.difference(snapshot, after)
    told = {"liveness": {"=": silent.liveness.value}}
    assert change == {"~": {"cluster": {"~": {"nodes": {"~": {node_id: {"~": told}}}}}}}


def test_nothing_is_told_of_what_stayed_the_same():
    snapshot = stirred.snapshot(Dice(7))
    assert trees.difference(snapshot, replace(snapshot)) is None


def test_the_order_of_keys_is_kept_when_one_goes_and_comes_back():
    a, b, c = Stray("n", "a", 1), Stray("n", "b", 2), Stray("n", "c", 3)
    before = Cluster(strays={("n", "a"): a, ("n", "b"): b})
    after = Cluster(strays={("n", "b"): b, ("n", "c"): c, ("n", "a"): a})
    change = through_json(trees.difference(before, after))
    again = trees.decode(Cluster, trees.patched(trees.encode(before), change))
    assert list(again.strays.items()) == list(after.strays.items())


def test_a_tree_of_another_version_is_read_as_far_as_it_goes():
    tree = {"node_id": "n1", "shard_id": "s", "http_port": 1, "later": {"x": 1}}
    assert trees.decode(Stray, tree) == Stray("n1", "s", 1)


def test_a_tree_of_another_shape_is_refused():
    with pytest.raises(Invalid, match="no Stray"):
        trees.decode(Stray, ["n1"])
