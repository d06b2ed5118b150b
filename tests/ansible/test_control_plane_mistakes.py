"""What keeps a machine from becoming a control plane is said before the first change, at once.

The playbook is the real one; this machine stands in for the control plane.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import yaml
from playing import ROOT

PLAYBOOKS = ROOT / "playbooks"


def play(controller, groups, **variables):
    """How ``control-plane.yml`` ends, and all that it said, on one line."""
    inventory = controller.home / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"all": {"children": groups}}))
    done = controller.run(
        *("ansible-playbook", "-i", str(inventory), "-e", json.dumps(variables)),
        str(PLAYBOOKS / "control-plane.yml"),
        environ={"ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg")},
    )
    assert done.stdout.count("FAILED!") == 1, done.stdout + done.stderr
    assert done.returncode == 2
    return " ".join(done.stdout.partition("FAILED! =>")[2].split())


@pytest.fixture
def here(controller):
    """This machine as a host of the inventory."""
    return {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": controller.interpreter,
        "ansible_host": "127.0.0.1",
    }


def test_what_is_wrong_with_the_inventory_is_one_message(controller):
    groups = {
        "control_host": {"hosts": {"control01": {}, "control02": {}}},
        "ca_host": {"hosts": {"vault01": {}, "vault02": {}}},
    }
    said = play(controller, groups, fleet_engines={"llamacpp": "b10991", "lama": "1"})
    assert "The group ca_host has vault01, vault02: a site has one authority" in said
    assert "control_host has control01, control02: two control planes need a store" in said
    assert "fleet_engines has lama: the engines are llamacpp, sglang, vllm" in said


def test_an_inventory_without_a_control_plane_is_named_with_its_place(controller):
    said = play(controller, {"node_host": {}}, fleet_engines="llamacpp")
    assert "The group control_host is empty: name the machine of the control plane" in said
    assert "hosts.yml" in said
    assert "fleet_engines has to be a version for each engine" in said


def test_what_is_wrong_with_the_machine_is_one_message(controller, here):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = play(
            controller,
            {"control_host": {"hosts": {"control01": here}}},
            control_listen=f":{port}",
            runtime_python="/usr/bin/false",
        )
    assert "control01: no Python 3.11 or newer with its standard library" in said
    assert f"control01: port {port}, for clients, is held by" in said
    assert not Path("/opt/llmgw/releases").exists()


def test_a_machine_that_is_away_is_named_with_who_was_to_log_in(controller, here, tmp_path):
    ssh = tmp_path / "ssh"
    ssh.write_text(
        "#!/bin/sh\necho 'ops@192.0.2.9: Permission denied (publickey).' >&2\nexit 255\n"
    )
    ssh.chmod(0o755)
    away = {"ansible_host": "192.0.2.9", "ansible_ssh_executable": str(ssh)}
    groups = {
        "control_host": {"hosts": {"control01": here}},
        "ca_host": {"hosts": {"vault01": away}},
    }
    said = play(controller, groups, fleet_ssh_user="ops", runtime_python="/usr/bin/false")
    assert "vault01: ops@192.0.2.9 does not take our key" in said
    assert "control01: no Python 3.11" in said
