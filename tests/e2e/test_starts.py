"""What a start refuses, in which words and with which exit code; and what it says when it works."""

from __future__ import annotations

import re
import socket
import subprocess
import time

import httpx
import pytest
import yaml

from llmgw.rpc import authority
from tests.fakes.deployment import Deployment, llmgw, until

STATIC = {"id": "a", "url": "http://127.0.0.1:9", "models": ["m"]}


@pytest.fixture
def started(deployment, monkeypatch):
    """Run a command that is expected to end by itself."""
    monkeypatch.setenv("DEPLOYMENT_MARK", str(deployment.root))

    def run(*words):
        command = llmgw(*words)
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    return run


def written(deployment, name="other.yaml", **settings):
    file = deployment.root / name
    file.write_text(yaml.safe_dump({**deployment.places(), **settings}))
    return file


def test_five_mistakes_of_a_settings_file_are_five_lines(started, tmp_path):
    file = tmp_path / "server.yaml"
    file.write_text(
        "listen: nowhere\n"
        "workers: 2\n"
        "gateway: {workers: many}\n"
        "router: {breaker: {open_s: -1}}\n"
        "models: [{name: m, source: s, profiles: [{name: p, engine: gpt}]}]\n"
    )
    ran = started("server", "--config", file)
    assert ran.returncode == 2
    assert "5 mistakes" in ran.stderr
    for path in ("listen", "workers", "gateway.workers", "router.breaker.open_s", "models[0]"):
        assert f"\n  {path}" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_server_with_nothing_to_serve_says_what_it_could(started, deployment):
    ran = started("server", "--config", written(deployment))
    assert ran.returncode == 2
    assert "--endpoint ID=URL=MODEL" in ran.stderr


def test_a_second_server_on_the_same_folder_names_the_first(started, deployment):
    first = deployment.server(endpoints=[STATIC])
    ran = started("server", "--config", written(deployment, endpoints=[STATIC]))
    assert ran.returncode == 5
    assert f"process {first.pid}" in ran.stderr
    assert httpx.get(f"{deployment.url}/health").status_code == 200


@pytest.mark.parametrize("key", ["listen", "admin_listen", "agent_listen"])
def test_a_port_in_use_is_refused_and_nothing_is_left(started, deployment, key):
    model = {"name": "m", "source": "s", "scaling": {"min": 1}}
    profiles = [{"name": "p", "engine": "sim"}]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = {"models": [{**model, "profiles": profiles}], key: address}
        ran = started("server", "--config", written(deployment, **settings))
    assert ran.returncode == 5
    assert address in ran.stderr
    assert "Traceback" not in ran.stderr
    assert deployment.workers() == set()


def test_port_0_is_any_free_port_and_is_said(deployment):
    server = deployment.server(endpoints=[STATIC], listen="127.0.0.1:0", gateway={"workers": 2})
    url = server.wait_said(r"^clients +(\S+)")
    assert httpx.get(f"{url}/models").json()["data"][0]["id"] == "m"
    assert len(deployment.workers()) == 2


def test_a_server_that_only_routes_says_so_on_the_admin_port(deployment):
    deployment.server(endpoints=[STATIC])
    assert httpx.get(f"{deployment.admin_url}/api/v1/status").status_code == 404
    assert httpx.get(f"{deployment.admin_url}/health").status_code == 200
    assert httpx.get(f"{deployment.admin_url}/ready").status_code == 200


def test_a_second_sigterm_cuts_what_still_runs(deployment, start_sim):
    engine = start_sim("sim", tpot_ms=50, tokens=2000)
    static = {"id": "a", "url": engine.url, "models": ["sim"]}
    server = deployment.server(
        endpoints=[static], gateway={"drain_delay_s": 0, "shutdown_grace_s": 60}
    )
    body = {"model": "sim", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    url = f"{deployment.url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, timeout=30) as answer:
        next(answer.iter_raw())
        began = time.monotonic()
        server.ask_to_stop()
        until(lambda: "stopping" in server.output, "it stops")
        server.ask_to_stop()
        assert server.wait() == 0
    assert time.monotonic() - began < 15
    assert deployment.workers() == set()


def test_reap_ends_workers_of_a_dead_server_and_none_of_a_living_one(started, deployment):
    server = deployment.server(endpoints=[STATIC], gateway={"workers": 2, "drain_delay_s": 0})
    file = deployment.root / "server.yaml"
    refused = started("server", "--config", file, "reap")
    assert refused.returncode == 5
    server.kill()
    assert len(deployment.workers()) == 2
    waits = started("server", "--config", file, "reap", "--service-result", "signal")
    assert waits.returncode == 0
    assert len(deployment.workers()) == 2
    ran = started("server", "--config", file, "reap")
    assert (ran.returncode, ran.stdout) == (0, "ended 2 worker(s)\n")
    assert deployment.workers() == set()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A CA, the server's pair and those of two nodes, by name."""
    root, now = tmp_path_factory.mktemp("tls"), time.time()
    authority.init_ca(root / "ca", now=now)
    pairs = {
        "server": authority.issue_server(
            root / "ca", out=root / "server", name="localhost", hosts=["127.0.0.1"], now=now
        )
    }
    for node in ("node1", "node2"):
        pairs[node] = authority.issue_client(root / "ca", out=root / node, node_id=node, now=now)
    return {
        name: {"ca": str(pair.ca), "cert": str(pair.cert), "key": str(pair.key)}
        for name, pair in pairs.items()
    }


@pytest.fixture
def fleet(deployment: Deployment, certificates):
    """A server that asks for certificates, with a model that fits nowhere and one that does."""
    sim = {"name": "cpu", "engine": "sim"}
    models = [
        {"name": "sim", "source": "sim", "scaling": {"min": 1}, "profiles": [sim]},
        {
            "name": "huge",
            "source": "sim",
            "scaling": {"min": 1},
            "profiles": [
                {"name": "big", "engine": "vllm", "gpu_class": "h100-80g"},
                {**sim, "min_memory_gb": 1_000_000},
            ],
        },
    ]
    deployment.server(models=models, agent_tls=certificates["server"])
    for number in (1, 2):
        tls = certificates[f"node{number}"]
        deployment.agent(number, server=deployment.agent_address, tls=tls)
    deployment.wait_ready("sim", 1)
    return deployment


def test_a_model_that_fits_nowhere_shows_every_node_with_its_reason(fleet):
    until(lambda: len(fleet.show("nodes")["nodes"]) == 2, "both nodes are there")
    shown = fleet.ctl("explain-placement", "huge")
    for node in ("node1", "node2"):
        on_gpu, on_cpu = re.findall(rf"^ *{node} +no +(.+)$", shown.stdout, re.MULTILINE)
        assert "vllm" in on_gpu
        assert "memory" in on_cpu


def test_a_stranger_on_the_agent_port_writes_nothing_into_the_servers_log(fleet):
    server = fleet.parts["server"]
    before = server.output
    host, _, port = fleet.agent_address.rpartition(":")
    for _ in range(3):
        with socket.create_connection((host, int(port)), timeout=5) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            stranger.settimeout(5)
            while stranger.recv(4096):
                pass
    assert "Handshake" not in server.output.removeprefix(before)
    assert "ssl_transport_security" not in server.output


def test_a_certificate_of_another_node_is_found_before_dialling(fleet, certificates):
    agent = fleet.agent(3, server=fleet.agent_address, tls=certificates["node1"])
    reason = agent.wait_said(r"(not dialled.*)$")
    assert "node1" in reason
    assert "node3" in reason


def test_a_plaintext_address_beside_certificates_is_refused_at_start(fleet, certificates):
    address = f"http://{fleet.agent_address}"
    agent = fleet.agent(3, server=address, tls=certificates["node1"])
    assert agent.wait() == 2
    assert "plaintext" in agent.output
