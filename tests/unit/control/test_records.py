"""What agents say is taken in at a price that does not rise with the fleet."""

from __future__ import annotations

from dataclasses import replace

from llmgw.control.catalog.live import LiveCatalog
from llmgw.control.reconciler.records import Records
from llmgw.domain import catalog_rules
from llmgw.domain.nodes import HeartbeatFacts, Liveness, NodeTarget
from llmgw.domain.snapshots import Bounds
from tests.fakes import clusters
from tests.fakes.clock import FakeClock

NODES = [f"n{i}" for i in range(20)]


class Counted(dict):
    """Counts how often somebody goes through all of it."""

    walks = 0

    def __iter__(self):
        self.walks += 1
        return super().__iter__()

    def keys(self):
        self.walks += 1
        return super().keys()

    def values(self):
        self.walks += 1
        return super().values()

    def items(self):
        self.walks += 1
        return super().items()


def known(*node_ids):
    records = Records(
        catalog=LiveCatalog(catalog_rules.build(())),
        clock=FakeClock(),
        bounds=Bounds(),
        served=(),
        on_change=lambda: None,
    )
    for node_id in node_ids:
        records.register(clusters.facts(node_id), ())
    return records


def test_a_heartbeat_looks_at_no_other_node_and_at_no_replica():
    records = known(*NODES)
    before = records.cluster
    records.cluster = replace(
        before, nodes=Counted(before.nodes), replicas=Counted(before.replicas)
    )
    records._clock.advance(1)
    for _ in range(3):
        for node_id in NODES:
            assert records.heartbeat(node_id, HeartbeatFacts())
    records.stream_lost("n0")
    assert (records._cluster.nodes.walks, records._cluster.replicas.walks) == (0, 0)
    assert {n.last_seen_at for n in records.cluster.nodes.values()} == {records._clock.monotonic()}
    assert records.cluster.nodes["n0"].is_connected is False


def test_who_looks_sees_every_word_that_was_said_before():
    records = known("n1", "n2")
    records._clock.advance(1)
    records.heartbeat("n1", HeartbeatFacts(memory_total_mb=1000))
    records.heartbeat("n1", HeartbeatFacts(new_problems=("ECC",)))
    held = records.cluster
    assert held.nodes["n1"].facts.memory_total_mb == 1000
    assert held.nodes["n1"].problems == ("ECC",)
    assert held.nodes["n2"].last_seen_at < held.nodes["n1"].last_seen_at
    records.heartbeat("n2", HeartbeatFacts())
    assert held.nodes["n2"].last_seen_at < records.cluster.nodes["n2"].last_seen_at


def test_a_beat_takes_back_no_word_of_an_operator():
    records = known("n1")
    records.heartbeat("n1", HeartbeatFacts())
    word = records.flag_for("n1", target=NodeTarget.CORDONED, reason="disk", actor="ann")
    records.flag("n1", word)
    records.heartbeat("n1", HeartbeatFacts())
    records.stream_lost("n1")
    assert records.cluster.nodes["n1"].is_cordoned
    assert not records.cluster.nodes["n1"].is_connected


def test_a_node_that_was_given_up_is_not_revived_by_a_beat():
    records = known("n1")
    lost = replace(records.cluster.nodes["n1"], liveness=Liveness.LOST)
    records.cluster = replace(records.cluster, nodes={"n1": lost})
    assert not records.heartbeat("n1", HeartbeatFacts())
    records.stream_lost("n1")
    assert records.cluster.nodes["n1"].liveness is Liveness.LOST


def test_a_node_that_was_forgotten_is_not_kept_by_an_earlier_beat():
    records = known("n1")
    records.heartbeat("n1", HeartbeatFacts())
    records.stream_lost("n1")
    records.forget("n1")
    assert records.cluster.nodes == {}
    assert not records.heartbeat("n1", HeartbeatFacts())
