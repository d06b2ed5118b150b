"""Two commands, two blank machines: a control plane, a node made on Proxmox, and a chat answer.

The node's machine is a booted host that is started when the Proxmox double starts the VM. The
story is played once; each promise looks at what was recorded of it.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import lab
import lab_proxmox
import lab_releases
import lab_watch
import pytest
from lab import Host, Lab, Played
from lab_watch import Watch
from proxmox_serving import SECRET

pytestmark = pytest.mark.story

QUESTION = "Say hello in one short sentence."
READY_WITHIN_S = 60
STORY_WITHIN_S = 360
NO_WAY_OUT = ("ip", "route", "del", "default")
"""Hosts reach each other and this machine, and nothing beyond."""

CANARY = "canary-of-the-environment-4711"


@dataclass
class Story:
    """What was seen."""

    blank_control: Played
    control: Played
    blank_node: Played
    node: Played
    answer: str
    nodes: list[dict]
    took_s: float
    control_again: Played
    node_again: Played
    control_checked: Played
    node_checked: Played
    pids: tuple[str, str]
    hosts: dict[str, Host]
    watch: Watch
    folder: Path


@pytest.fixture(scope="module")
def story(tmp_path_factory) -> Iterator[Story]:
    """The story, and its hosts for a closer look."""
    with contextlib.ExitStack() as parts:
        site = parts.enter_context(lab.opened(tmp_path_factory.mktemp("lab")))
        began = time.monotonic()
        control = site.boot("control01", last=10)
        control.run(*NO_WAY_OUT)
        node = site.create("node05", last=145)
        releases = parts.enter_context(lab_releases.serving(site.gateway))
        site.variables["LLMGW_LAB_RELEASES"] = releases.url
        proxmox = parts.enter_context(lab_proxmox.running(site, node, then=NO_WAY_OUT))
        watch = parts.enter_context(lab_watch.watching(control, node))
        words = ("-e", "name=node05", "-e", f"@{proxmox}")
        seen = play(site, control, node, words=words, at=began)
        watch.stop()
        yield Story(**seen, watch=watch, folder=site.folder)


def play(site: Lab, control: Host, node: Host, *, words: tuple[str, ...], at: float) -> dict:
    """What an operator does on the first day, and a second time."""
    seen: dict = {"hosts": {"control01": control, "node05": node}}
    secrets = site.folder / "secrets.json"
    secrets.write_text(json.dumps({"control_environment": {"HF_TOKEN": CANARY}}))
    first = ("control-plane.yml", "-e", f"@{secrets}")
    seen["blank_control"] = site.play(*first, "--check", "--diff")
    seen["control"] = made(site.play(*first))
    seen["blank_node"] = site.play("add-node.yml", *words, "--check", "--diff")
    seen["node"] = made(site.play("add-node.yml", *words))
    node.put(lab.model_file(), f"/srv/models/{lab.MODEL}")
    seen["answer"] = first_answer(control)
    seen["nodes"] = json.loads(control.run("llmgw", "ctl", "nodes", "--json"))["nodes"]
    seen["took_s"] = time.monotonic() - at
    before = engine_pid(node)
    plays = {
        "control_again": first,
        "node_again": ("add-node.yml", *words),
        "control_checked": (*first, "--check", "--diff"),
        "node_checked": ("add-node.yml", *words, "--check", "--diff"),
    }
    with ThreadPoolExecutor(2) as pool:
        seen |= zip(plays, pool.map(lambda one: site.play(*one), plays.values()), strict=True)
    seen["pids"] = (before, engine_pid(node))
    return seen


def made(played: Played) -> Played:
    """A play without which the story cannot go on."""
    assert played.rc == 0, played.output
    return played


def test_a_trial_run_on_a_blank_machine_is_green_and_writes_nothing(story):
    assert story.blank_control.rc == 0, story.blank_control.output
    assert story.blank_node.rc == 0, story.blank_node.output
    assert story.control.counts("changed")["control01"] > 10


def test_one_command_makes_a_control_plane(story):
    assert story.control.rc == 0, story.control.output
    assert "auth.enabled is false" in story.control.output


def test_one_command_makes_a_machine_and_a_node_of_it(story):
    assert story.node.rc == 0, story.node.output
    (node,) = story.nodes
    assert (node["node_id"], node["state"], node["is_connected"]) == ("node05", "ready", True)
    assert node["hostname"] == "node05"


def test_the_engine_of_the_node_was_checked_and_runs(story):
    (node,) = story.nodes
    assert "llamacpp" in node["engine_versions"]
    checked = json.loads(
        story.hosts["node05"].run("llmgw", "engine", "check", "llamacpp", "--json")
    )
    assert (checked["state"], checked["version"]) == ("ready", lab_releases.VERSION)


def test_the_gateway_answers_with_what_the_model_says(story):
    assert "hello" in story.answer.lower()


def test_a_second_run_changes_nothing(story):
    for again in (story.control_again, story.node_again):
        assert again.rc == 0, again.output
        assert again.changed == 0, again.changes()


def test_a_trial_run_on_a_finished_machine_is_green_and_has_nothing_to_do(story):
    for checked in (story.control_checked, story.node_checked):
        assert checked.rc == 0, checked.output
        assert checked.changed == 0, checked.changes()


def test_a_second_run_leaves_the_engine_at_work(story):
    before, after = story.pids
    assert before == after != ""


def test_the_authoritys_key_is_on_one_machine(story):
    found = {
        name: host.run("sh", "-c", "grep -rlsE 'BEGIN.*PRIVATE KEY' /etc/llmgw || true").split()
        for name, host in story.hosts.items()
    }
    assert sorted(found["control01"]) == ["/etc/llmgw/pki/ca.key", "/etc/llmgw/server-key.pem"]
    assert found["node05"] == ["/etc/llmgw/agent-key.pem"]


def test_keys_are_readable_to_their_owner_only(story):
    modes = {
        ("control01", "/etc/llmgw/pki"): "700 root",
        ("control01", "/etc/llmgw/server-key.pem"): "400 llmgw",
        ("control01", "/etc/llmgw/server.yaml"): "640 root",
        ("node05", "/etc/llmgw/agent-key.pem"): "600 root",
        ("node05", "/etc/llmgw/agent.pem"): "644 root",
    }
    found = {
        (name, path): story.hosts[name].run("stat", "-c", "%a %U", path).strip()
        for name, path in modes
    }
    assert found == modes


def test_no_key_was_readable_to_others_at_any_moment(story):
    assert story.watch.open_keys == set()


def test_no_secret_is_in_process_lists_logs_or_what_the_controller_keeps(story):
    found = {
        (secret[:24], place)
        for secret in secrets_of(story)
        for place, text in places(story)
        if secret in text
    }
    assert found == set()


def test_the_units_say_what_lets_engines_and_streams_live_on(story):
    for name, unit in (("control01", "llmgw-server"), ("node05", "llmgw-agent")):
        shown = story.hosts[name].run("systemctl", "show", unit, "-p", "KillMode,Restart,User")
        assert "KillMode=process" in shown
        assert "Restart=on-failure" in shown
        assert ("User=llmgw" in shown) == (unit == "llmgw-server")


def test_an_agent_host_has_no_packages_of_a_server(story):
    node = story.hosts["node05"]
    installed = node.run("sh", "-c", "ls /opt/llmgw/current/venv/lib/python3*/site-packages")
    assert {"fastapi", "uvicorn", "sqlalchemy"}.isdisjoint(installed.split())


def test_the_story_is_short(story):
    assert story.took_s < STORY_WITHIN_S


def secrets_of(story: Story) -> list[str]:
    """What nobody may see: planted canaries, and a line of every private key."""
    keys = {
        "control01": ("/etc/llmgw/pki/ca.key", "/etc/llmgw/server-key.pem"),
        "node05": ("/etc/llmgw/agent-key.pem",),
    }
    lines = [
        story.hosts[name].run("sed", "-n", "2p", path).strip()
        for name, paths in keys.items()
        for path in paths
    ]
    assert all(len(line) == 64 for line in lines)
    return [CANARY, SECRET, *lines]


def places(story: Story) -> Iterator[tuple[str, str]]:
    """Where a secret might have got to, but for the files that hold it."""
    yield "process list", "\n".join(story.watch.commands)
    yield "output of the playbooks", (story.folder / "plays.log").read_text()
    for file in (story.folder / "home").rglob("*"):
        if file.is_file():
            yield str(file), file.read_bytes().decode(errors="replace")
    for name, host in story.hosts.items():
        yield f"journal of {name}", host.run("journalctl", "--no-pager", "--output=cat")
        left = "cat $(find /tmp /var/tmp /root /home -type f) </dev/null 2>/dev/null || true"
        yield f"left on {name}", host.run("sh", "-c", left)


def first_answer(control: Host) -> str:
    """What the model says, once a replica of it is ready."""
    control.run("llmgw", "ctl", "wait", "smollm2", "--timeout", f"{READY_WITHIN_S}s")
    return lab.chat(control.address, QUESTION, model="smollm2")


def engine_pid(node: Host) -> str:
    """The process that serves the model."""
    script = "pgrep -f 'llama-server.*smollm2|llmgw llama-server' | sort -n | head -1"
    return node.run("sh", "-c", script, is_checked=False).strip()
