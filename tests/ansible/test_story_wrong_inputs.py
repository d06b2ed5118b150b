"""Whatever is wrong is named before the first change, all of it in one message, with what to do.

What is wrong at Proxmox is in ``test_add_node_mistakes``; here it is hosts, keys, disks and names.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time

import pytest

pytestmark = [pytest.mark.story, pytest.mark.slow]

SSHD_AWAY_S = 40


@pytest.fixture
def machine(cluster):
    """A booted machine that is no node, and stays none."""
    host = cluster.machine("node08", last=148)
    yield host
    assert host.run("ls", "/opt", "/etc/llmgw", is_checked=False).split() == ["/opt:"]


@contextlib.contextmanager
def moved_away(host, path):
    """A file of the host is not there while the block runs."""
    host.run("mv", path, f"{path}.away")
    try:
        yield
    finally:
        host.run("mv", f"{path}.away", path)


@contextlib.contextmanager
def full(host, folder):
    """The folder's disk has no room while the block runs."""
    host.run("mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", folder)
    try:
        yield
    finally:
        host.run("umount", folder)


def test_names_keys_the_disk_and_the_authority_are_wrong_at_once(cluster, machine):
    known_hosts = cluster.site.folder / "known_hosts"
    before = known_hosts.read_text()
    forget(cluster, "node05")
    with known_hosts.open("a") as file:
        file.write(f"{cluster.node('node05').address} {another_key(cluster)}\n")
    stranger = cluster.site.boot("node09", last=149)
    stranger.run("sh", "-c", "rm ~ops/.ssh/authorized_keys")
    try:
        with moved_away(cluster.control, "/etc/llmgw/pki/ca.key"), full(machine, "/opt"):
            names = ("Node_5", "node05", "node08", "node09", "gpu")
            played = cluster.add(*names, fleet_ssh_wait_s=5)
    finally:
        known_hosts.write_text(before)
    assert played.rc == 2
    assert played.changed == 0, played.changes()
    for said in (
        "'Node_5' is no node name",
        "'gpu' ends in no number to add to fleet_node_ip_base",
        "control01 has no authority that could sign for a node",
        "node05: the host key of 10.89",
        "ssh-keygen -R",
        f"node09: ops@{stranger.address} does not take our key",
        "node08: /opt/llmgw/engines has 0.1 GiB free and 10 GiB are needed",
    ):
        assert said in played.failure, said


def test_a_control_plane_that_cannot_be_dialled_is_named_before_the_first_change(cluster, machine):
    played = cluster.add("node08", fleet_servers=["https://127.0.0.1:7443"])
    assert played.rc == 2
    assert played.changed == 0
    assert "it gets no connection to https://127.0.0.1:7443 (nothing listens" in played.failure


def test_a_control_plane_that_is_down_is_named(cluster, machine):
    cluster.control.run("systemctl", "stop", "llmgw-server")
    try:
        played = cluster.add("node08")
    finally:
        cluster.control.run("systemctl", "start", "llmgw-server")
    assert played.rc == 2
    assert "The control plane on control01 does not answer" in played.failure


def test_the_machine_of_the_authority_becomes_a_node_only_on_purpose(cluster):
    played = cluster.add("node10", ip=f"{cluster.control.address}/24")
    assert played.rc == 2
    assert "-e allow_ca_host=true" in played.failure.replace("Give ", "")


def test_a_name_that_another_living_machine_has_is_refused(cluster, machine):
    played = cluster.add("node05", ip=f"{machine.address}/24")
    assert played.rc == 2
    assert played.changed == 0
    assert "A node node05 is connected from 10.89" in played.failure
    assert "force_identity=true" in played.failure


def test_an_ssh_server_that_is_away_delays_and_does_not_fail(cluster):
    node = cluster.node("node05")
    node.run("systemctl", "stop", "ssh")
    starter = threading.Timer(SSHD_AWAY_S, node.run, ("systemctl", "start", "ssh"))
    starter.start()
    began = time.monotonic()
    try:
        played = cluster.add("node05")
    finally:
        starter.join()
    assert played.rc == 0, played.output
    assert time.monotonic() - began > SSHD_AWAY_S


def test_a_machine_that_never_answers_is_given_up_in_time(cluster):
    played = cluster.add("node11", fleet_ssh_wait_s=10)
    assert played.rc == 2
    assert "node11: ops@10.89" in played.failure
    assert "did not let us in within 10 s" in played.failure


def test_a_port_that_somebody_holds_stops_a_control_plane_before_the_first_change(cluster):
    host = cluster.machine("node08", last=148)
    with holding_port(host, 8080):
        played = cluster.site.play(
            "control-plane.yml", "-i", f"{cluster.site.folder / 'other.yml'}", *other(cluster, host)
        )
    assert played.rc == 2
    assert played.changed == 0
    assert "port 8080, for clients, is held by" in played.failure


def other(cluster, host):
    """An inventory in which this host is the control plane."""
    (cluster.site.folder / "other.yml").write_text(
        f"all: {{children: {{control_host: {{hosts: {{{host.name}: "
        f"{{ansible_host: {host.address}}}}}}}}}}}\n"
    )
    folder = cluster.site.folder
    values = {
        "ansible_user": "ops",
        "ansible_ssh_private_key_file": str(folder / "key"),
        "ssh_trust_file": str(folder / "known_hosts"),
    }
    return ("-e", json.dumps(values))


@contextlib.contextmanager
def holding_port(host, port):
    """Another program listens there."""
    host.run(
        *("systemd-run", "--unit", "stranger", "python3", "-m", "http.server", str(port)),
    )
    time.sleep(1)
    try:
        yield
    finally:
        host.run("systemctl", "stop", "stranger")


def forget(cluster, name):
    """The host key of a host is unknown again."""
    words = ["ssh-keygen", "-R", cluster.node(name).address]
    words += ["-f", str(cluster.site.folder / "known_hosts")]
    subprocess.run(words, check=True, capture_output=True)


def another_key(cluster):
    """A host key that no host has."""
    file = cluster.site.folder / "stranger"
    if not file.exists():
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(file)]
        subprocess.run(words, check=True)
    return file.with_suffix(".pub").read_text().strip()
