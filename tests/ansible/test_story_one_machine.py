"""One machine is everything: control plane, authority and node, made in spite of interruptions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import lab
import lab_releases
import pytest
from lab import Host, Lab, Played

pytestmark = [pytest.mark.story, pytest.mark.slow]

STEPS = (
    "Its folder is there",
    "It has a virtual environment",
    "The command llmgw is on the path",
    "The authority is there",
    "The authority signs it",
    "The settings are in place",
    "The unit is in place",
    "The service runs, now and after a boot",
)
OWNERS = ("stat", "-c", "%a.%U", "/etc/llmgw/server-key.pem", "/etc/llmgw/agent-key.pem")


@dataclass
class Story:
    """What was seen."""

    host: Host
    ended: dict[str, Played]
    finished: Played
    authority: tuple[str, str]
    joined: Played
    again: list[Played]
    verified: Played


@pytest.fixture(scope="module")
def story(tmp_path_factory) -> Iterator[Story]:
    """A machine, half made many times, then whole, then a node too."""
    with lab.opened(tmp_path_factory.mktemp("one")) as site:
        host = site.boot("control01", last=10)
        with lab_releases.serving(site.gateway) as releases:
            site.variables["LLMGW_LAB_RELEASES"] = releases.url
            yield play(site, host)


def play(site: Lab, host: Host) -> Story:
    """The whole of it."""
    ended = {step: site.play("control-plane.yml", environ={"STOP_AFTER": step}) for step in STEPS}
    authority = ("sha256sum", "/etc/llmgw/pki/ca.pem")
    before = host.run(*authority)
    finished = site.play("control-plane.yml")
    values = {
        "node_name": "control01",
        "ip": f"{host.address}/24",
        "provision": False,
        "allow_ca_host": True,
    }
    node = ("add-node.yml", "-e", json.dumps(values))
    joined = site.play(*node)
    again = [site.play("control-plane.yml"), site.play(*node)]
    verified = site.play("verify.yml", "-e", f"report={site.folder / 'report.json'}")
    return Story(host, ended, finished, (before, host.run(*authority)), joined, again, verified)


def test_a_run_that_ended_after_any_step_is_finished_by_the_next(story):
    assert {step: played.rc for step, played in story.ended.items()} == dict.fromkeys(STEPS, 99)
    assert story.finished.rc == 0, story.finished.output


def test_the_authority_is_made_once(story):
    before, after = story.authority
    assert before == after


def test_a_control_plane_may_be_a_node_when_that_is_meant(story):
    assert story.joined.rc == 0, story.joined.output
    nodes = json.loads(story.host.run("llmgw", "ctl", "nodes", "--json"))["nodes"]
    assert [(n["node_id"], n["state"]) for n in nodes] == [("control01", "ready")]


def test_each_daemon_keeps_its_own_key(story):
    assert story.host.run(*OWNERS).split() == ["400.llmgw", "600.root"]


def test_both_halves_are_left_alone_by_a_second_run(story):
    for played in story.again:
        assert played.rc == 0, played.output
        assert played.changed == 0, played.changes()


def test_it_verifies(story):
    assert story.verified.rc == 0, story.verified.output
    assert story.verified.changed == 0


def test_the_server_can_write_nothing_but_its_own_folders(story):
    pid = story.host.run("systemctl", "show", "llmgw-server", "--value", "-p", "MainPID").strip()
    inside = ("nsenter", "--target", pid, "--mount", "sh", "-c")
    said = story.host.run(*inside, "touch /etc/llmgw/x /usr/x 2>&1; touch /var/lib/llmgw/x")
    assert said.count("Read-only file system") == 2
    assert story.host.run("ls", "/var/lib/llmgw/x").strip() == "/var/lib/llmgw/x"


def test_other_programs_of_the_host_believe_the_authority(story):
    script = (
        "import ssl; c = ssl.create_default_context(); "
        "print(any('llmgw' in str(a['subject']) for a in c.get_ca_certs()))"
    )
    assert story.host.run("python3", "-c", script).strip() == "True"
