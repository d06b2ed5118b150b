"""A cluster that serves grows and is looked after, and its clients notice nothing."""

from __future__ import annotations

import lab
import lab_proxmox
import pytest
from lab_streams import streaming

pytestmark = [pytest.mark.story, pytest.mark.slow]


@pytest.fixture
def streams(cluster):
    """Clients that stream while the test runs; none of their answers may be cut."""
    with streaming(cluster.control.address, "smollm2") as running:
        yield running
    assert running.broken == []


def test_a_node_with_another_python_joins_while_clients_stream(cluster, streams):
    lab.make_image(lab.NEWER_IMAGE)
    cluster.machine("node06", last=146, image=lab.NEWER_IMAGE)
    before = processes(cluster)
    joined = cluster.add("node06")
    assert joined.rc == 0, joined.output
    assert cluster.seen("node06")["state"] == "ready"
    assert "llamacpp" in cluster.seen("node06")["engine_versions"]
    assert processes(cluster) == before


def test_a_second_run_on_a_node_that_serves_changes_nothing_and_stops_nothing(cluster, streams):
    before = processes(cluster)
    again = cluster.add("node05")
    assert again.rc == 0, again.output
    assert again.changed == 0, again.changes()
    assert processes(cluster) == before


def test_new_settings_restart_the_agent_once_and_never_the_engine(cluster, streams):
    node = cluster.node("node05")
    agent, engines = cluster.main_pid(node, "llmgw-agent"), cluster.engine_pids(node)
    changed = cluster.add("node05", agent_labels={"rack": "a7"})
    assert changed.rc == 0, changed.output
    assert changed.output.count("RUNNING HANDLER") == 1
    assert cluster.main_pid(node, "llmgw-agent") != agent
    assert cluster.engine_pids(node) == engines != []
    assert cluster.seen("node05")["labels"] == {"rack": "a7"}
    streams.wait_for_more()


def test_a_restart_that_was_missed_is_made_good_by_the_next_run(cluster, streams):
    node = cluster.node("node05")
    agent, engines = cluster.main_pid(node, "llmgw-agent"), cluster.engine_pids(node)
    node.run("sh", "-c", "sleep 1; touch /etc/llmgw/agent.yaml")
    again = cluster.add("node05", agent_labels={"rack": "a7"})
    assert again.rc == 0, again.output
    assert cluster.main_pid(node, "llmgw-agent") != agent
    assert cluster.engine_pids(node) == engines


def test_an_operators_cordon_is_not_lifted(cluster):
    cluster.control.run("llmgw", "ctl", "cordon", "node05", "--reason", "new disks")
    again = cluster.add("node05", agent_labels={"rack": "a7"})
    assert again.rc == 0, again.output
    assert again.changed == 0, again.changes()
    assert cluster.seen("node05")["flag_reason"] == "new disks"
    cluster.control.run("llmgw", "ctl", "uncordon", "node05")


def test_a_renewed_certificate_is_used_and_the_engine_goes_on(cluster, streams):
    node = cluster.node("node05")
    serial, engines = serial_of(node), cluster.engine_pids(node)
    renewed = cluster.add("node05", agent_labels={"rack": "a7"}, force_identity=True)
    assert renewed.rc == 0, renewed.output
    assert serial_of(node) != serial
    assert cluster.engine_pids(node) == engines


def test_a_machine_is_made_and_left_at_that_when_it_is_not_to_be_onboarded(cluster):
    host = cluster.site.create("node07", last=147)
    with lab_proxmox.running(cluster.site, host) as proxmox:
        words = ("-e", "name=node07", "-e", "onboard=false", "-e", f"@{proxmox}")
        made = cluster.site.play("add-node.yml", *words)
        again = cluster.site.play("add-node.yml", *words)
    assert made.rc == 0, made.output
    assert "ansible-playbook add-node.yml -e name=node07 -e provision=false" in made.output
    assert again.rc == 0, again.output
    assert again.changed == 0, again.changes()
    assert cluster.seen("node07") == {}
    assert host.run("ls", "/opt").strip() == ""


def test_a_trial_run_on_a_blank_machine_is_green_and_writes_nothing(cluster):
    host = cluster.machine("node14", last=154)
    tried = cluster.site.play(
        "add-node.yml", "-e", "node_name=node14", "-e", "provision=false", "--check", "--diff"
    )
    assert tried.rc == 0, tried.output
    assert host.run("ls", "/opt").strip() == ""
    assert cluster.seen("node14") == {}


def test_everything_verifies_and_a_planted_fault_turns_one_check_red(cluster):
    good = cluster.verify()
    assert good.rc == 0, good.output
    assert good.changed == 0, good.changes()
    node = cluster.node("node05")
    node.run("chmod", "0644", "/etc/llmgw/agent-key.pem")
    bad = cluster.verify("--limit", "node05")
    node.run("chmod", "0600", "/etc/llmgw/agent-key.pem")
    assert bad.rc == 2
    assert bad.output.count("WRONG") >= 1
    assert "/etc/llmgw/agent-key.pem has to be readable to its owner alone" in bad.failure


def processes(cluster):
    """What must live on: the server, and the agent and the engines of the node that serves."""
    node = cluster.node("node05")
    return (
        cluster.main_pid(cluster.control, "llmgw-server"),
        cluster.main_pid(node, "llmgw-agent"),
        cluster.engine_pids(node),
    )


def serial_of(host):
    """The number of the node's certificate."""
    shown = host.run("llmgw", "ctl", "cert", "inspect", "--json", "/etc/llmgw/agent.pem")
    return shown.partition('"serial"')[2].split(",")[0]
