"""Engines of a running fleet are checked from where its operator sits."""

from __future__ import annotations

import json

import pytest

from tests.e2e.test_survival import MODEL

pytestmark = pytest.mark.slow


def test_a_node_is_asked_for_its_engine_and_a_model_for_its_tools(deployment):
    deployment.server(
        models=[{**MODEL, "scaling": {"min": 1}}],
        agent_tls="insecure",
        control={"expect_nodes": ["node1"]},
    )
    deployment.agent(1)
    deployment.wait_ready("sim", 1)
    done = deployment.ctl("engine-check", "sim", "--json")
    assert done.returncode == 0, done.stderr
    [checked] = json.loads(done.stdout)["checks"]
    [program] = checked["programs"]
    assert "sim-engine --help" in program["subject"]
    assert program["is_done"]
    asked = deployment.ctl("tool-check", "sim", "--url", deployment.url, "--json")
    assert asked.returncode == 7, asked.stderr
    found = json.loads(asked.stdout)
    assert found["engine"] == "sim"
    assert found["checks"][0]["name"] == "tool call"
    assert "no tool was called" in found["checks"][0]["detail"]
    unknown = deployment.ctl("engine-check", "vllm", "--node", checked["node_id"])
    assert unknown.returncode == 7
    assert "cannot be started" in unknown.stdout
