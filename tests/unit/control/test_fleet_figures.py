"""The fleet in figures: what is known has its sample, what is not has none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.reconciler import fleet_families, fleet_figures, showing
from llmgw.control.reconciler.deciding import decide
from llmgw.control.reconciler.tallying import Tally
from llmgw.domain import summaries
from llmgw.domain.nodes import EngineInstall, InstallState, Storage
from llmgw.domain.replicas import ShardState
from llmgw.domain.status_views import ControlView, GatewayView
from llmgw.domain.traffic import EndpointTraffic, Traffic
from tests.fakes import clusters, stirred
from tests.fakes.random_clusters import Dice

LEADS = ControlView(version="1", uptime_s=1.0, is_leader=True)
MIB = 1024 * 1024


def figures(snapshot, *, control=LEADS):
    return {(s.name, s.labels): s.value for s in fleet_figures.of(snapshot, control=control)}


def named(found, name):
    return {labels: value for (one, labels), value in found.items() if one == name}


def of_node(*models, **node):
    return clusters.snapshot(*models, on=clusters.cluster(clusters.node("n1", **node)))


def serving(*models, on):
    snapshot = clusters.snapshot(*models, on=on)
    placed = clusters.after(on, decide(snapshot).actions, now=snapshot.now)
    return replace(snapshot, cluster=clusters.reach(placed, ShardState.READY))


@pytest.mark.parametrize("seed", range(40))
def test_every_sample_is_of_a_declared_family_with_its_labels_and_there_once(seed):
    declared = {family.name: family for family in fleet_families.FAMILIES}
    snapshot = stirred.snapshot(Dice(seed))
    samples = [*fleet_figures.of(snapshot, control=LEADS), *Tally().samples()]
    keys = [(s.name, s.labels) for s in samples]
    assert len(keys) == len(set(keys))
    assert all(len(s.labels) == len(declared[s.name].labels) for s in samples)


@pytest.mark.parametrize("seed", range(20))
def test_figures_are_those_of_the_status_page(seed):
    snapshot = stirred.snapshot(Dice(seed))
    found = figures(snapshot)
    status = summaries.summarise(
        control=LEADS,
        nodes=showing.nodes(snapshot),
        models=showing.models(snapshot, refusals={}),
        replicas=showing.replicas(snapshot),
    )
    assert named(found, "llmgw_replicas") == {
        (state,): n for state, n in status.replicas_by_state.items()
    }
    unplaced = {model for model, _ in named(found, "llmgw_model_unplaced")}
    assert {one.model for one in status.unplaced} <= unplaced


def test_a_node_that_tells_little_has_no_figures_of_what_it_did_not_tell():
    found = figures(of_node(gpus=[clusters.gpu(0, mib=None)]))
    told = {name for name, labels in found if labels[:1] == ("n1",)}
    assert told == {"llmgw_node_up", "llmgw_node_last_seen_seconds", "llmgw_gpu_problems"}


def test_a_node_that_tells_all_has_every_figure():
    card = clusters.gpu(
        0, memory_used_mib=100, utilization_percent=50, temperature_c=40, nvlink_peers=()
    )
    own = Storage(path="/m", free_bytes=3, total_bytes=9)
    shared = Storage(path="/nfs", free_bytes=70, total_bytes=90, is_shared=True)
    install = EngineInstall("vllm", "1", "cuda", InstallState.FAILED)
    found = figures(
        of_node(gpus=[card], memory_total_mb=10, storage=(own, shared), engine_installs=(install,))
    )
    of_card = ("n1", "0", "h100-80g")
    assert found["llmgw_node_disk_free_bytes", ("n1",)] == 3
    assert found["llmgw_node_disk_total_bytes", ("n1",)] == 9
    assert found["llmgw_node_memory_total_bytes", ("n1",)] == 10 * MIB
    assert found["llmgw_node_memory_claimed_bytes", ("n1",)] == 0
    assert found["llmgw_gpu_memory_used_bytes", of_card] == 100 * MIB
    assert found["llmgw_gpu_utilization_ratio", of_card] == 0.5
    assert found["llmgw_gpu_temperature_celsius", of_card] == 40
    assert found["llmgw_gpu_nvlink_peers", ("n1", "0")] == 0
    assert found["llmgw_engine_install", ("n1", "vllm", "failed")] == 1
    assert named(found, "llmgw_gpus") == {
        ("h100-80g", "free"): 1, ("h100-80g", "used"): 0, ("h100-80g", "unhealthy"): 0
    }  # fmt: skip


def test_a_cordoned_node_is_not_up():
    found = figures(of_node(flags={"is_cordoned": True}))
    assert named(found, "llmgw_node_up") == {("n1", "cordoned"): 0}


def test_a_wanted_model_without_a_replica_is_zero_and_an_unwanted_one_absent():
    models = (
        clusters.model("wanted", clusters.gpu_profile()),
        clusters.model("off", min=0),
        clusters.model("on-demand", min=0, max=1),
    )
    found = figures(of_node(*models))
    assert named(found, "llmgw_model_replicas_ready") == {("wanted",): 0}
    assert named(found, "llmgw_model_unplaced") == {("wanted", "placement"): 1}


def test_what_stands_in_the_way_of_a_model_is_named():
    snapshot = clusters.snapshot(clusters.model("m"), settled=False)
    assert named(figures(snapshot), "llmgw_model_unplaced") == {("m", "settled"): 1}


def test_idle_is_absent_where_nobody_knows():
    on = clusters.cluster(clusters.node("n1"))
    snapshot = serving(clusters.model("m"), on=on)
    (replica_id,) = snapshot.cluster.replicas
    assert named(figures(snapshot), "llmgw_replica_idle_seconds") == {}
    seen = EndpointTraffic(inflight=0, last_used_at=snapshot.now - 7)
    used = replace(snapshot, traffic=Traffic(endpoints={replica_id: seen}))
    assert named(figures(used), "llmgw_replica_idle_seconds") == {(replica_id, "m"): 7}


def test_an_edited_profile_is_stale():
    snapshot = serving(clusters.model("m"), on=clusters.cluster(clusters.node("n1")))
    edited = clusters.model("m", clusters.profile(args=("--new",)))
    after = replace(snapshot, catalog=clusters.snapshot(edited).catalog)
    assert [*named(figures(snapshot), "llmgw_replica_stale_profile").values()] == [0]
    assert [*named(figures(after), "llmgw_replica_stale_profile").values()] == [1]


def test_gateways_on_other_hosts_are_counted_by_name():
    heard = GatewayView("gw01", "10.0.0.5", "1", is_connected=True, is_current=True, heard_s=0.1)
    silent = replace(heard, name="gw02", is_connected=False)
    control = replace(LEADS, gateways=(heard, silent))
    found = figures(of_node(clusters.model("m")), control=control)
    assert named(found, "llmgw_gateway_connected") == {("gw01",): 1, ("gw02",): 0}


def test_a_standby_tells_of_itself_alone():
    standby = ControlView(version="1", uptime_s=1.0, is_leader=False, term=7)
    found = figures(of_node(clusters.model("m"), gpus=1), control=standby)
    assert found == {("llmgw_leader", ()): 0, ("llmgw_leader_term", ()): 7}


def test_passes_and_what_they_did_are_counted():
    tally, snapshot = Tally(), of_node(clusters.model("m"))
    for took_s in (0.002, 0.002, 9.0):
        tally.note(decide(snapshot), took_s=took_s)
    found = {(s.name, s.labels): s for s in tally.samples()}
    passes = found["llmgw_pass_seconds", ()]
    assert (sum(passes.buckets), passes.buckets[1], passes.buckets[-1]) == (3, 2, 1)
    assert passes.value == pytest.approx(9.004)
    assert found["llmgw_pass_actions_total", ("place",)].value == 3
    assert found["llmgw_evictions_total", ()].value == 0
