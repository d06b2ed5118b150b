"""A model's life at run time: added, used, scaled, edited, kept over a restart, removed."""

from __future__ import annotations

import json

import httpx
import pytest
import yaml

from tests.fakes.deployment import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

LONG_S = 90.0
CARDS = "\n".join(
    f"echo '{i}, GPU-{i}, NVIDIA H100 80GB HBM3, 81559, 4, 9.0, 00000000:1{i}:00.0, 550.54.15, "
    "31, 0, 0'"
    for i in range(2)
)
MODEL = {
    "name": "late",
    "source": "sim",
    "aliases": ["later"],
    "description": "added while it runs",
    "context_length": 4096,
    "capabilities": ["tools"],
    "scaling": {"min": 1, "idle_timeout": "45m"},
    "profiles": [{"name": "gpu", "engine": "sim", "gpu_class": "h100-80g"}],
}


@pytest.fixture
def site(deployment):
    """A server with a store and no model, and a node with two cards."""
    settings = {
        "auth": {"store": str(deployment.root / "store.db")},
        "control": {
            "enabled": True,
            "interval": 1,
            "base_backoff": 0.5,
            "expect_nodes": ["node1"],
        },
    }
    deployment.server(**settings)
    smi = deployment.root / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\n{CARDS}\n")
    smi.chmod(0o755)
    deployment.agent(1, discovery={"nvidia_smi": str(smi), "prefer_nvml": False})
    until(lambda: free(deployment) == 2, "the node is there")
    return deployment


def free(deployment):
    cards = [card for node in deployment.show("nodes")["nodes"] for card in node["gpus"]]
    return sum(card["use"] == "free" for card in cards)


def ctl(deployment, *words):
    done = deployment.ctl(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(deployment, name):
    body = {"model": name, "messages": [{"role": "user", "content": "hi"}]}
    return httpx.post(f"{deployment.url}/v1/chat/completions", json=body, timeout=20)


def listed(deployment):
    models = httpx.get(f"{deployment.url}/v1/models", timeout=5).json()["data"]
    return {model["id"]: model for model in models}


def ids(deployment):
    return {replica["replica_id"] for replica in deployment.ready("late")}


def stale(deployment):
    return [replica["is_stale_profile"] for replica in deployment.ready("late")]


def test_a_model_lives_from_its_addition_to_its_removal(site):
    file = site.root / "late.yaml"
    file.write_text(yaml.safe_dump(MODEL))
    assert ask(site, "late").status_code == 404
    assert "+ late added" in ctl(site, "model", "add", "-f", str(file))
    site.wait_ready("late", 1, within_s=LONG_S)
    until(lambda: ask(site, "later").status_code == 200, "it answers by its alias")
    shown = listed(site)["late"]
    assert (shown["owned_by"], shown["description"]) == ("llmgw-sim", "added while it runs")
    assert free(site) == 1

    assert "late: min 2, max 2, idle_timeout 45m" in ctl(site, "scale", "late", "--min", "2")
    site.wait_ready("late", 2, within_s=LONG_S)
    assert free(site) == 0

    before, engines = ids(site), site.engines()
    profile = {**MODEL["profiles"][0], "args": ["--tokens", "7"]}
    edited = {**MODEL, "scaling": {"min": 2}, "profiles": [profile]}
    file.write_text(yaml.safe_dump(edited))
    told = ctl(site, "model", "add", "-f", str(file), "--replace")
    assert "'llmgw ctl model roll late' replaces them" in told
    until(lambda: stale(site) == [True, True], "both are flagged as stale")
    assert (ids(site), site.engines()) == (before, engines)

    assert site.parts["server"].stop() == 0
    site.parts["server"].start()
    until(lambda: ids(site) == before, "both are adopted", within_s=LONG_S)
    assert stale(site) == [True, True], "what they were placed with came back with them"
    assert site.engines() == engines
    entry = json.loads(ctl(site, "model", "show", "late", "--json"))
    assert (entry["origin"], entry["revision"], entry["definition"]) == ("stored", 3, edited)
    until(lambda: ask(site, "late").status_code == 200, "it answers after the restart")

    assert "- late removed" in ctl(site, "model", "remove", "late")
    until(lambda: site.show("replicas")["replicas"] == [], "its replicas are gone", within_s=LONG_S)
    until(lambda: free(site) == 2, "the cards are free again")
    until(lambda: site.engines() == {}, "the engines have ended")
    assert ask(site, "late").status_code == 404
    assert listed(site) == {}
    acts = site.show("audit")["entries"]
    assert [act["action"] for act in reversed(acts)] == [
        "model.add",
        "model.scale",
        "model.add",
        "model.remove",
    ]
