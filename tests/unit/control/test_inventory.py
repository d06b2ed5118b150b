"""Nodes as they report themselves, how alive they are, and what they owe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.inventory import claims, fleet, liveness
from llmgw.control.reconciler import effects
from llmgw.domain.nodes import (
    EngineInstall,
    Fabric,
    GpuGauges,
    HeartbeatFacts,
    InstallState,
    Liveness,
    LocalWeights,
    Storage,
)
from llmgw.domain.replicas import ShardState, Stray
from llmgw.domain.snapshots import Bounds
from tests.fakes import clusters
from tests.fakes.clusters import NOW

BOUNDS = Bounds(unreachable_after_s=15.0, lost_after_s=60.0)


@pytest.mark.parametrize(
    ("silent_s", "expected"),
    [
        (0, Liveness.READY),
        (14.9, Liveness.READY),
        (15, Liveness.UNREACHABLE),
        (59.9, Liveness.UNREACHABLE),
        (60, Liveness.LOST),
    ],
)
def test_silence_makes_a_node_unreachable_then_lost(silent_s, expected):
    node = clusters.node("n1")
    assert liveness.of(node, now=NOW + silent_s, bounds=BOUNDS) is expected


def test_lost_node_stays_lost_until_it_registers():
    node = clusters.node("n1", liveness=Liveness.LOST)
    heard = replace(node, last_seen_at=NOW)
    assert liveness.of(heard, now=NOW, bounds=BOUNDS) is Liveness.LOST
    assert fleet.registered(heard, heard.facts, now=NOW).liveness is Liveness.READY


def test_registration_keeps_the_flags_and_replaces_the_facts():
    flags = {"is_cordoned": True, "is_draining": True, "flag_reason": "disk swap"}
    before = clusters.node("n1", flags=flags)
    after = fleet.registered(before, clusters.facts("n1", gpus=2), now=NOW + 5)
    assert (after.is_cordoned, after.is_draining, after.flag_reason) == (True, True, "disk swap")
    assert len(after.facts.gpus) == 2
    assert after.last_seen_at == NOW + 5


def test_heartbeat_revives_a_silent_node_and_clears_no_flag():
    before = clusters.node("n1", liveness=Liveness.UNREACHABLE, flags={"is_cordoned": True})
    after = fleet.heard(before, HeartbeatFacts(), now=NOW + 20)
    assert after.liveness is Liveness.READY
    assert after.is_cordoned


def test_heartbeat_replaces_only_what_it_says():
    before = clusters.node("n1", weights=["/w/a.gguf"], memory_total_mb=1000)
    silent = fleet.heard(before, HeartbeatFacts(), now=NOW)
    assert silent.facts == before.facts
    emptied = fleet.heard(before, HeartbeatFacts(weights=(), engine_versions={}), now=NOW)
    assert emptied.facts.weights == ()
    assert emptied.facts.engine_versions == {}
    storage = (Storage(path="/w", free_bytes=1, total_bytes=2),)
    grown = fleet.heard(before, HeartbeatFacts(memory_total_mb=2000, storage=storage), now=NOW)
    assert grown.facts.memory_total_mb == 2000
    assert grown.facts.storage == storage


def test_card_that_breaks_after_registration_is_kept_out_of_use_until_it_is_well_again():
    before = clusters.node("n1", gpus=2)
    bad = (clusters.gpu(0), clusters.gpu(1, problems=("Xid 79",)))
    broken = fleet.heard(before, HeartbeatFacts(gpus=bad), now=NOW)
    assert [gpu.problems for gpu in broken.facts.gpus] == [(), ("Xid 79",)]
    assert fleet.heard(broken, HeartbeatFacts(), now=NOW).facts.gpus == bad
    assert not fleet.qualifies_anew(broken.facts, broken.facts)
    well = fleet.heard(broken, HeartbeatFacts(gpus=before.facts.gpus), now=NOW)
    assert [gpu.problems for gpu in well.facts.gpus] == [(), ()]
    assert fleet.qualifies_anew(broken.facts, well.facts)


def test_gauges_move_and_what_a_card_stops_telling_becomes_unknown():
    before = clusters.node("n1", gpus=2)
    gauges = {1: GpuGauges(utilization_percent=87, temperature_c=60, power_watts=450)}
    beat = HeartbeatFacts(gpu_memory_used_mib={1: 9}, gpu_gauges=gauges)
    after = fleet.heard(before, beat, now=NOW)
    assert after.facts.gpus[0] == before.facts.gpus[0]
    card = after.facts.gpus[1]
    assert (card.memory_used_mib, card.utilization_percent, card.power_watts) == (9, 87, 450)
    silent = fleet.heard(after, HeartbeatFacts(gpu_gauges={1: GpuGauges()}), now=NOW)
    assert silent.facts.gpus[1].utilization_percent is None
    assert not fleet.qualifies_anew(before.facts, after.facts)


def test_fabric_that_goes_is_no_longer_offered_and_the_reason_stays_with_it():
    before = clusters.node("n1", fabrics=["ib"])
    why = ("fabric ib: adapter ib_0 has no active port: port 1 is INIT/LinkUp",)
    gone = fleet.heard(before, HeartbeatFacts(fabrics=(), fabric_problems=why), now=NOW)
    assert (gone.facts.fabrics, gone.facts.fabric_problems) == ((), why)
    assert fleet.heard(gone, HeartbeatFacts(), now=NOW).facts.fabric_problems == why
    back = fleet.heard(gone, HeartbeatFacts(fabrics=before.facts.fabrics), now=NOW)
    assert back.facts.fabrics == (Fabric(name="ib", hcas=("ib_0",), rate_gbps=400),)
    assert back.facts.fabric_problems == ()
    assert fleet.qualifies_anew(gone.facts, back.facts)


def test_engines_told_later_count_as_probed():
    old = clusters.node("n1", engine_versions={}, engines_probed=False)
    after = fleet.heard(old, HeartbeatFacts(engine_versions={"vllm": "1"}), now=NOW)
    assert after.facts.engines_probed


@pytest.mark.parametrize(
    ("beat", "is_news"),
    [
        (HeartbeatFacts(), False),
        (HeartbeatFacts(gpu_memory_used_mib={0: 5}), False),
        (HeartbeatFacts(memory_total_mb=5), True),
        (HeartbeatFacts(engine_versions={"vllm": "2"}), True),
        (HeartbeatFacts(weights=(LocalWeights(path="/w/x.gguf", size_bytes=1),)), True),
    ],
    ids=["nothing", "card-memory", "memory", "engines", "weights"],
)
def test_what_may_let_a_node_qualify_is_news(beat, is_news):
    node = clusters.node("n1", gpus=1)
    after = fleet.heard(node, beat, now=NOW)
    assert fleet.qualifies_anew(node.facts, after.facts) is is_news


def test_problems_told_by_heartbeats_are_kept_until_the_next_registration():
    node = clusters.node("n1")
    once = fleet.heard(node, HeartbeatFacts(new_problems=("Xid 79",)), now=NOW)
    twice = fleet.heard(once, HeartbeatFacts(new_problems=("Xid 79",)), now=NOW)
    assert twice.problems == ("Xid 79",)
    assert fleet.registered(twice, node.facts, now=NOW).problems == ()


def test_a_node_that_tells_another_problem_with_each_beat_fills_no_memory():
    node = clusters.node("n1")
    for count in range(100):
        node = fleet.heard(node, HeartbeatFacts(new_problems=(f"Xid at {count}",)), now=NOW)
    assert len(node.problems) == fleet.MOST_PROBLEMS
    assert node.problems[-1] == "Xid at 99"


def test_own_stall_is_nobodys_silence():
    nodes = {"n1": clusters.node("n1"), "n2": replace(clusters.node("n2"), last_seen_at=NOW + 39)}
    excused = fleet.excused(nodes, stalled_s=40.0, now=NOW + 41)
    assert excused["n1"].last_seen_at == NOW + 40
    assert excused["n2"].last_seen_at == NOW + 41


def test_replica_holds_cards_memory_and_ports_on_its_own_nodes():
    shards = (
        clusters.shard("a-1", node_id="n1", gpu_indices=(0, 1), leader_port=20001),
        clusters.shard("a-1", node_id="n2", rank=1, gpu_indices=(2,)),
    )
    held = clusters.replica("a-1", *shards, of="a", memory_claim_gb=2)
    on = clusters.cluster(clusters.node("n1", gpus=2), clusters.node("n2", gpus=4), replicas=[held])
    book = claims.by_node(on, now=NOW)
    assert book["n1"].gpus == {0: "a-1", 1: "a-1"}
    assert book["n1"].ports == {20000, 20001}
    assert book["n2"].gpus == {2: "a-1"}
    assert book["n2"].memory_mb == 2048
    assert book["n2"].by_model == {"a": 1}


def test_a_replica_over_two_nodes_holds_all_until_it_is_released_and_then_frees_all_at_once():
    shards = (
        clusters.shard("a-1", node_id="n1", gpu_indices=(0,), state=ShardState.FAILED),
        clusters.shard("a-1", node_id="n2", rank=1, gpu_indices=(1,), state=ShardState.STOPPED),
    )
    held = clusters.replica("a-1", *shards, of="a", memory_claim_gb=2)
    on = clusters.cluster(clusters.node("n1", gpus=2), clusters.node("n2", gpus=2), replicas=[held])
    before = claims.by_node(on, now=NOW)
    assert [before[n].gpus for n in ("n1", "n2")] == [{0: "a-1"}, {1: "a-1"}]
    assert before["n1"].taken_ports == {20000}
    after = claims.by_node(effects.released(on, "a-1"), now=NOW)
    assert [after[n] for n in ("n1", "n2")] == [claims.Claims(), claims.Claims()]


def test_ports_of_agents_on_one_machine_are_shared():
    on = clusters.cluster(
        clusters.node("n1", mgmt_addr="10.0.0.9"),
        clusters.node("n2", mgmt_addr="10.0.0.9"),
        clusters.node("n3", mgmt_addr="10.0.0.8"),
        replicas=[clusters.replica("a-1", clusters.shard("a-1", node_id="n1"))],
        strays=[Stray(node_id="n2", shard_id="x.0", http_port=20005)],
    )
    book = claims.by_node(on, now=NOW)
    assert book["n2"].taken_ports == book["n1"].taken_ports == {20000, 20005}
    assert book["n3"].taken_ports == set()
    assert book["n2"].replicas == 0


def test_an_engine_that_was_told_to_end_keeps_its_cards_for_its_time():
    stray = Stray("n1", "m-1.0", 20000, gpu_indices=(0, 2), cards_until_at=NOW + 75)
    on = clusters.cluster(clusters.node("n1", gpus=3), clusters.node("n2", gpus=3), strays=[stray])
    book = claims.by_node(on, now=NOW)
    assert book["n1"].gpus == {0: "m-1", 2: "m-1"}
    assert book["n2"].gpus == {}
    assert claims.by_node(on, now=NOW + 75)["n1"].gpus == {}


def test_strangers_port_is_avoided_for_its_time_only():
    on = clusters.cluster(clusters.node("n1"), blocked_ports={("n1", 20000): NOW + 600})
    assert claims.by_node(on, now=NOW)["n1"].taken_ports == {20000}
    assert claims.by_node(on, now=NOW + 600)["n1"].taken_ports == set()


def test_download_is_promised_space_until_its_replica_is_ready():
    starting = clusters.shard("a-1", state=clusters.ShardState.PENDING)
    pending = clusters.replica("a-1", starting, disk_claim_gb=30)
    ready = clusters.replica("b-1", clusters.shard("b-1"), disk_claim_gb=30)
    on = clusters.cluster(clusters.node("n1"), replicas=[pending, ready])
    assert claims.by_node(on, now=NOW)["n1"].disk_gb == 30


def test_foreign_memory_excludes_a_free_card_and_own_memory_does_not():
    card = clusters.gpu(0, memory_used_mib=4000)
    free, held = claims.Claims(), claims.Claims(gpus={0: "a-1"})
    assert claims.problems(card, free) == (claims.FOREIGN,)
    assert claims.problems(card, held) == ()
    assert claims.problems(clusters.gpu(0, memory_used_mib=512), free) == ()
    assert claims.problems(clusters.gpu(0), free) == ()


def test_how_installed_engines_stand_is_kept_until_a_heartbeat_says_otherwise():
    install = EngineInstall("llamacpp", "b1", "cpu", InstallState.READY)
    node = clusters.node("n1", engine_installs=(install,))
    assert fleet.heard(node, HeartbeatFacts(), now=NOW).facts.engine_installs == (install,)
    gone = fleet.heard(node, HeartbeatFacts(engine_installs=()), now=NOW)
    assert gone.facts.engine_installs == ()


@pytest.mark.parametrize(
    ("silent_s", "expected"),
    [(59, Liveness.READY), (60, Liveness.UNREACHABLE), (80, Liveness.LOST)],
)
def test_node_that_beats_slowly_may_miss_two_beats(silent_s, expected):
    node = clusters.node("n1", heartbeat_s=20.0)
    assert liveness.of(node, now=NOW + silent_s, bounds=BOUNDS) is expected
