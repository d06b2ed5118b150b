"""What is wrong with a new node is said before the first change, all of it in one message.

The playbook is the real one, against the Proxmox double; no control plane and no machine is there.
"""

from __future__ import annotations

import json
import time

import pytest
import yaml
from playing import ROOT
from proxmox_serving import serving
from vm_stage import NOBLE, NOBLE_BYTES, Stage, furnished

PLAYBOOKS = ROOT / "playbooks"


@pytest.fixture
def site(controller, tmp_path):
    """A cluster that could build node05, and an inventory without a control plane that answers."""
    double = furnished()
    double.add_image(NOBLE, disk_bytes=NOBLE_BYTES)
    with serving(double, tmp_path) as ca:
        stage = Stage(double=double, controller=controller, ca=ca)
        values = {key: value for key, value in stage.variables.items() if key != "vm_ip"}
        nowhere = {
            "fleet_node_ip_base": "10.0.0.140/24",
            "fleet_admin_url": "http://127.0.0.1:9",
            "fleet_ssh_wait_s": 1,
            "certs_ca_dir": str(tmp_path / "pki"),
        }
        control = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": controller.interpreter,
        }
        hosts = {"control_host": {"hosts": {"control01": control}}}
        inventory = tmp_path / "hosts.yml"
        inventory.write_text(
            yaml.safe_dump({"all": {"vars": {**values, **nowhere}, "children": hosts}})
        )
        yield stage


def add_node(site, *words):
    """How ``add-node.yml`` ends."""
    environ = {"ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg")}
    return site.controller.run(
        *("ansible-playbook", "-i", str(site.ca.parent / "hosts.yml")),
        *(str(PLAYBOOKS / "add-node.yml"), *words),
        environ=environ,
    )


def message(done):
    """The one message in which the play ended."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout.count("FAILED!") == 1, done.stdout
    return json.dumps(done.stdout.partition("FAILED! =>")[2])


def test_all_of_it_is_in_one_message_and_proxmox_was_only_read(site):
    site.double.add_vm(145, "db1", status="running")
    site.double.storages["local"]["volumes"].clear()
    began = time.monotonic()
    said = message(add_node(site, "-e", '{"names": ["node05", "node06", "Node_7"]}'))
    assert "VMID 145 is taken by the VM db1 on pve1 (running)" in said
    assert f"the storage local on pve1 holds no image {NOBLE}" in said
    assert "Node_7'' is no node name" in said
    assert "has no authority that could sign for a node" in said
    assert "The control plane on control01 does not answer" in said
    assert site.writes == []
    assert time.monotonic() - began < 60


def test_an_api_that_is_away_is_one_of_the_mistakes(site):
    said = message(add_node(site, "-e", "name=node05", "-e", "vm_api_port=9"))
    assert "the Proxmox API at https://127.0.0.1:9 cannot be reached" in said
    assert "has no authority that could sign for a node" in said
    assert site.double.log.calls == []


def test_what_proxmox_lacks_is_one_of_the_mistakes(site):
    site.double.storages["local"]["volumes"].clear()
    said = message(add_node(site, "-e", "name=node05", "-e", "bridge=vmbr7"))
    assert f"the storage local on pve1 holds no image {NOBLE}" in said
    assert "pve1 has no bridge vmbr7" in said
    assert site.writes == []


def test_a_bad_name_is_one_of_the_mistakes(site):
    said = message(add_node(site, "-e", '{"names": ["Node_5", "node06"]}'))
    assert "Node_5" in said
    assert site.writes == []
