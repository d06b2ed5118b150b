"""What is wrong with a new node is said before the first change, all of it in one message.

The playbook is the real one, against the Proxmox double; no control plane and no machine is there.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

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


def test_all_wrong_inputs_are_in_one_message_before_the_first_change(site, strangers):
    """Nothing is right: names, Proxmox, keys, disks, the control plane and its authority."""
    site.double.add_vm(145, "db1", status="running")
    site.double.storages["local"]["volumes"].clear()
    began = time.monotonic()
    names = ["node05", "node06", "Node_7", "node08", "node09", "node10"]
    done = add_node(site, "-i", str(strangers), "-e", json.dumps({"names": names}))
    said = " ".join(message(done).replace("\\n", " ").split())
    for words in WRONG:
        assert words in said, (words, said)
    assert site.writes == []
    assert sum(map(int, re.findall(r"changed=(\d+)", done.stdout))) == 0
    assert not Path("/etc/llmgw/agent.yaml").exists()
    assert time.monotonic() - began < 60


WRONG = (
    # a taken VMID
    "node05: VMID 145 is taken by the VM db1 on pve1 (running)",
    "choose another vmid, or another address",
    # a missing image
    f"node05: the storage local on pve1 holds no image {NOBLE}",
    "set vm_image_url and vm_image_sha256",
    # an API that cannot be reached
    "node06: the Proxmox API at https://127.0.0.1:9 cannot be reached",
    # a bad name
    "Node_7'' is no node name: small letters, digits and dashes",
    # a wrong ssh key
    "node08: ops@10.0.0.148 does not take our key: put the public key into its authorized_keys",
    # a changed host key
    "node09: the host key of 10.0.0.149 is not the one that was learnt",
    "ssh-keygen -R 10.0.0.149",
    # a full disk
    "node10: /proc/llmgw has 0.0 GiB free and 10 GiB are needed: make room, or grow the disk",
    # settings that contradict each other
    "node10: the adapter mlx5_0 is in the fabrics ib0 and ib1",
    # no authority, and no control plane
    "control01 has no authority that could sign for a node",
    "run ansible-playbook control-plane.yml first",
    "The control plane on control01 does not answer",
)

SSH = """\
#!/bin/sh
# Stands in for OpenSSH: one machine does not take the key, another shows a key of its own.
case "$*" in
*10.0.0.148*) echo 'ops@10.0.0.148: Permission denied (publickey).' ;;
*) echo 'WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!' ;;
esac >&2
exit 255
"""


@pytest.fixture
def strangers(site, tmp_path):
    """An inventory of machines that Proxmox runs for us, each with something wrong."""
    config = {"tags": "llmgw", "scsi0": "local-lvm:vm-disk-0,size=20G", "cores": 4}
    for name, last in (("node08", 148), ("node09", 149), ("node10", 150)):
        site.double.add_vm(last, name, status="running", config=config)
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    behind_ssh = {"ansible_ssh_executable": str(ssh), "ansible_user": "ops"}
    here = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": site.controller.interpreter,
        "engine_dir": "/proc/llmgw",
        "agent_fabrics": ["ib0:mlx5_0", "ib1:mlx5_0"],
    }
    hosts = {
        "node06": {"vm_api_port": 9},
        "node08": behind_ssh,
        "node09": behind_ssh,
        "node10": here,
    }
    inventory = tmp_path / "nodes.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    return inventory


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
