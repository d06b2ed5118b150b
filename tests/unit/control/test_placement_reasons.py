"""Every check of a node, in order, with the figures that its reason must show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.inventory import claims
from llmgw.control.placement import fitting, planning
from llmgw.domain.nodes import EngineInstall, Fabric, InstallState, Liveness, Storage
from llmgw.domain.replicas import Stray
from llmgw.domain.snapshots import Bounds
from tests.fakes import clusters
from tests.fakes.clusters import H100, NOW

GB = claims.BYTES_PER_GB


def refusal(on, profile, *, source="/w/m.gguf", node_id="n1", bounds=None):
    space = planning.space(on, now=NOW, bounds=bounds or Bounds())
    model = clusters.model("m", profile, source=source)
    (tried,) = planning.plan(space, model, failures=None, is_full=True).tried
    return next((r for r in tried.refusals if r.node_id == node_id), None)


def one(**node):
    return clusters.cluster(clusters.node("n1", **node))


@pytest.mark.parametrize(
    ("node", "profile", "check", "words"),
    [
        (
            {"now": NOW - 20, "liveness": Liveness.UNREACHABLE},
            clusters.profile(),
            "liveness",
            ["unreachable", "20 s"],
        ),
        (
            {"flags": {"is_connected": False, "disconnected_at": NOW - 3}},
            clusters.profile(),
            "liveness",
            ["stream ended 3 s ago"],
        ),
        (
            {"flags": {"is_cordoned": True, "flag_reason": "ann: new disk"}},
            clusters.profile(),
            "flags",
            ["cordoned", "ann: new disk"],
        ),
        ({"flags": {"is_draining": True}}, clusters.profile(), "flags", ["draining"]),
        ({"mgmt_addr": ""}, clusters.profile(), "address", ["no address"]),
        (
            {"labels": {"zone": "b"}},
            clusters.profile(node_selector={"zone": "a"}),
            "selector",
            ["zone=a", "zone is b"],
        ),
        (
            {},
            clusters.profile(node_selector={"zone": "a"}),
            "selector",
            ["zone=a", "not set"],
        ),
        (
            {"engine_versions": {"vllm": "0.11"}},
            clusters.profile(engine="llamacpp"),
            "engine",
            ["llamacpp", "not installed", "vllm 0.11"],
        ),
        (
            {"engine_versions": {}},
            clusters.profile(engine="llamacpp"),
            "engine",
            ["llamacpp", "no engine"],
        ),
        (
            {"memory_total_mb": 31 * 1024},
            clusters.profile(min_memory_gb=40),
            "memory",
            ["31.0 GiB in all", "0.0 GiB promised", "40.0 GiB needed"],
        ),
        (
            {"storage": (Storage(path="/w", free_bytes=10 * GB, total_bytes=100 * GB),)},
            clusters.profile(min_disk_gb=30),
            "disk",
            ["10.0 GiB free of 100.0 GiB", "30.0 GiB needed"],
        ),
        ({}, clusters.gpu_profile(), "gpu_class", [H100, "no GPU"]),
        (
            {"gpus": [clusters.gpu(0, name="NVIDIA A100-SXM4-40GB", mib=40960)]},
            clusters.gpu_profile(),
            "gpu_class",
            [H100, "a100-40g"],
        ),
        (
            {"gpus": [clusters.gpu(0), clusters.gpu(1, problems=("ECC errors",))]},
            clusters.gpu_profile(tp=2),
            "gpus",
            ["needs 2", "1 free", "1 unhealthy", "ECC errors"],
        ),
        ({"gpus": 4}, clusters.wide_profile(), "fabric", ["no fabric"]),
        (
            {"gpus": 4, "fabrics": [Fabric(name="ib", hcas=())]},
            clusters.wide_profile(),
            "fabric",
            ["no fabric"],
        ),
        (
            {"gpus": 4, "fabric_problems": ["fabric ib: adapter mlx5_0 has no active port"]},
            clusters.wide_profile(),
            "fabric",
            ["no fabric", "adapter mlx5_0 has no active port"],
        ),
        ({"port_range": (1, 0)}, clusters.profile(), "ports", ["1-0", "0 held by engines"]),
    ],
    ids=[
        "silent",
        "cut-off",
        "cordoned",
        "draining",
        "no-address",
        "other-label",
        "no-label",
        "other-engine",
        "no-engine",
        "memory",
        "disk",
        "no-gpu",
        "other-gpu-class",
        "ill-gpu",
        "no-fabric",
        "empty-fabric",
        "broken-fabric",
        "no-port",
    ],
)
def test_refused_node_says_which_check_failed_and_why(node, profile, check, words):
    refused = refusal(one(**node), profile)
    assert refused is not None
    assert refused.check == check
    for word in words:
        assert word in refused.reason


@pytest.mark.parametrize(
    ("node", "profile"),
    [
        ({}, clusters.profile()),
        ({"labels": {"zone": "a"}}, clusters.profile(node_selector={"zone": "a"})),
        ({"engine_versions": {}}, clusters.profile(engine="sim")),
        ({"engine_versions": {}, "engines_probed": False}, clusters.profile(engine="llamacpp")),
        ({"memory_total_mb": None}, clusters.profile(min_memory_gb=900)),
        ({"memory_total_mb": 1024}, clusters.profile(min_memory_gb=0)),
        ({"storage": ()}, clusters.profile(min_disk_gb=900)),
        ({"gpus": 2}, clusters.gpu_profile(tp=2)),
    ],
    ids=[
        "plain",
        "selected",
        "sim-comes-with-the-agent",
        "old-agent",
        "memory-unknown",
        "memory-undeclared",
        "disk-unknown",
        "cards",
    ],
)
def test_unknown_is_not_zero_and_excludes_nobody(node, profile):
    assert refusal(one(**node), profile) is None


@pytest.mark.parametrize(
    ("state", "detail", "words"),
    [
        (InstallState.WANTED, "", "llamacpp b2 is to be installed"),
        (
            InstallState.INSTALLING,
            "unpacking, 40 %",
            "llamacpp b2 is being installed: unpacking, 40 %",
        ),
        (InstallState.FAILED, "no space", "llamacpp b2 could not be installed: no space"),
        (
            InstallState.UNSUPPORTED,
            "no build for riscv64",
            "llamacpp b2 cannot be installed here: no build for riscv64",
        ),
        (
            InstallState.READY,
            "",
            "llamacpp b2 is installed, but the node does not report it",
        ),
    ],
)
def test_an_engine_that_is_not_there_says_how_its_installation_stands(state, detail, words):
    install = EngineInstall("llamacpp", version="b2", variant="cpu", state=state, detail=detail)
    here = one(engine_versions={}, engine_installs=(install,))
    assert refusal(here, clusters.profile(engine="llamacpp")).reason == words


def test_node_that_holds_the_weights_needs_no_disk():
    full = (Storage(path="/w", free_bytes=1, total_bytes=100 * GB),)
    profile = clusters.profile(min_disk_gb=30)
    assert refusal(one(storage=full), profile).check == "disk"
    assert refusal(one(storage=full, weights=["/w/m.gguf"]), profile) is None


def test_two_disks_are_not_one_and_shared_space_is_nobodys_own():
    disks = (
        Storage(path="/a", free_bytes=24 * GB, total_bytes=24 * GB),
        Storage(path="/b", free_bytes=24 * GB, total_bytes=24 * GB),
        Storage(path="/nfs", free_bytes=900 * GB, total_bytes=900 * GB, is_shared=True),
    )
    assert refusal(one(storage=disks), clusters.profile(min_disk_gb=30)).check == "disk"
    assert refusal(one(storage=disks), clusters.profile(min_disk_gb=20)) is None


def test_claims_that_exceed_the_total_cannot_share_a_node_before_either_has_loaded():
    starting = clusters.shard("a-1", state=clusters.ShardState.PENDING)
    held = clusters.replica("a-1", starting, of="a", memory_claim_gb=20)
    on = clusters.cluster(clusters.node("n1", memory_total_mb=31 * 1024), replicas=[held])
    refused = refusal(on, clusters.profile(min_memory_gb=15))
    assert refused.check == "memory"
    assert "20.0 GiB promised" in refused.reason
    assert refusal(on, clusters.profile()) is None


def test_taken_cards_are_named_with_who_holds_them():
    held = clusters.replica("a-1", clusters.shard("a-1", gpu_indices=(0, 1)), of="a")
    on = clusters.cluster(clusters.node("n1", gpus=2), replicas=[held])
    refused = refusal(on, clusters.gpu_profile())
    assert refused.check == "gpus"
    assert "0 free" in refused.reason
    assert "2 taken by a-1" in refused.reason


def test_card_with_a_problem_is_neither_free_nor_taken():
    cards = [clusters.gpu(0, problems=("fell off the bus",))]
    reason = refusal(one(gpus=cards), clusters.gpu_profile()).reason
    assert "0 free" in reason
    assert "taken" not in reason


def test_ports_of_strays_are_not_handed_out_and_are_counted():
    on = clusters.cluster(
        clusters.node("n1"), strays=[Stray(node_id="n1", shard_id="x.0", http_port=20000)]
    )
    refused = refusal(on, clusters.profile(), bounds=Bounds(port_range=(20000, 20000)))
    assert refused.check == "ports"
    assert "1 held by engines" in refused.reason


def test_cards_of_strays_are_not_handed_out_and_whose_they_are_is_told():
    stray = Stray("n1", "old-1.0", 20000, gpu_indices=(0,), cards_until_at=NOW + 1)
    on = clusters.cluster(clusters.node("n1", gpus=2), strays=[stray])
    refused = refusal(on, clusters.gpu_profile(tp=2))
    assert refused.check == "gpus"
    assert "1 free, 1 taken by old-1" in refused.reason


def by(mode):
    return {"launch_modes": {"vllm": mode}} if mode else {}


@pytest.mark.parametrize(
    ("modes", "names"),
    [
        (("ray", "mp", "ray"), ["n1", "n3"]),
        (("ray", "mp", "mp"), ["n2", "n3"]),
        (("ray", "", "mp"), ["n2", "n3"]),
        (("", "", ""), ["n1", "n2"]),
    ],
    ids=["two-by-ray", "two-by-mp", "one-did-not-say", "none-said"],
)
def test_nodes_of_one_replica_start_its_ranks_in_one_way(modes, names):
    nodes = (
        clusters.node(f"n{i}", gpus=4, fabrics=["ib"], **by(mode))
        for i, mode in enumerate(modes, start=1)
    )
    where = planning.space(clusters.cluster(*nodes), now=NOW, bounds=Bounds())
    model = clusters.model("m", clusters.wide_profile())
    placed = planning.plan(where, model, failures=None).placement
    assert [slot.node_id for slot in placed.slots] == names


def test_nodes_that_start_ranks_in_two_ways_are_refused_with_both():
    on = clusters.cluster(
        clusters.node("n1", gpus=4, fabrics=["ib"], **by("ray")),
        clusters.node("n2", gpus=4, fabrics=["ib"], **by("mp")),
    )
    refused = refusal(on, clusters.wide_profile())
    assert refused.check == "fabric_size"
    assert "2 such nodes of one fabric are needed and ib by mp has 1, ib by ray has 1" in (
        refused.reason
    )
    assert refusal(on, replace(clusters.wide_profile(), engine="sim")) is None, "it has one way"


def test_a_row_of_ports_that_is_broken_is_no_row():
    splits = clusters.wide_profile()
    splits = replace(splits, engine="sglang", args=("--enable-dp-attention", "--dp-size=8"))
    bounds = Bounds(port_range=(20000, 20016))
    node = clusters.node("n1", gpus=4, fabrics=["ib"], engine_versions={"sglang": "0.5.23"})
    assert refusal(clusters.cluster(node), splits, bounds=bounds).check == "fabric_size"
    stray = Stray(node_id="n1", shard_id="x.0", http_port=20008)
    refused = refusal(clusters.cluster(node, strays=[stray]), splits, bounds=bounds)
    assert refused.check == "ports"
    assert "fewer than 16 free port(s) (14 of them in a row) in 20000-20016" in refused.reason


def test_summary_says_that_no_node_has_registered():
    outcome = planning.plan(
        planning.space(clusters.cluster(), now=NOW, bounds=Bounds()),
        clusters.model("m"),
        failures=None,
    )
    assert "no node has registered" in outcome.reason


def test_summary_names_the_node_that_came_furthest():
    on = clusters.cluster(
        clusters.node("n1", flags={"is_cordoned": True}),
        clusters.node("n2", memory_total_mb=1024),
    )
    space = planning.space(on, now=NOW, bounds=Bounds())
    model = clusters.model("m", clusters.profile(min_memory_gb=2))
    reason = planning.plan(space, model, failures=None).reason
    assert "none of 2 node(s) fits" in reason
    assert "closest is n2: memory" in reason


def test_summary_of_several_nodes_counts_by_fabric():
    on = clusters.cluster(
        clusters.node("n1", gpus=4, fabrics=["ib-a"]),
        clusters.node("n2", gpus=1, fabrics=["ib-a"]),
        clusters.node("n3", gpus=4, fabrics=["ib-b"]),
    )
    space = planning.space(on, now=NOW, bounds=Bounds())
    model = clusters.model("m", clusters.wide_profile())
    outcome = planning.plan(space, model, failures=None)
    assert "ib-a: 1 of 2 qualify" in outcome.reason
    assert "ib-b: 1 of 1 qualify" in outcome.reason
    checks = {r.node_id: r.check for r in outcome.tried[0].refusals}
    assert checks == {"n1": fitting.FABRIC_SIZE, "n2": "gpus", "n3": fitting.FABRIC_SIZE}


def test_summary_says_that_no_node_reports_a_fabric():
    space = planning.space(one(gpus=4), now=NOW, bounds=Bounds())
    outcome = planning.plan(space, clusters.model("m", clusters.wide_profile()), failures=None)
    assert "no node reports a fabric" in outcome.reason
