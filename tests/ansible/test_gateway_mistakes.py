"""What keeps a machine from becoming a gateway is said before the first change, at once.

The playbook is the real one; this machine stands in for the control plane and for the gateway.
"""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
import yaml
from playing import COLLECTIONS, ROOT

PLAYBOOKS = ROOT / "playbooks"
ROLE = COLLECTIONS / "ansible_collections" / "llmgw" / "fleet" / "roles" / "gateway"


def play(controller, groups, **variables):
    """How ``gateway.yml`` ends, and all that it said, on one line."""
    inventory = controller.home / "hosts.yml"
    nowhere = {"fleet_admin_url": "http://127.0.0.1:9", "certs_ca_dir": str(controller.home)}
    inventory.write_text(yaml.safe_dump({"all": {"vars": nowhere, "children": groups}}))
    done = controller.run(
        *("ansible-playbook", "-i", str(inventory), "-e", json.dumps(variables)),
        str(PLAYBOOKS / "gateway.yml"),
        environ={"ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg")},
    )
    assert done.stdout.count("FAILED!") == 1, done.stdout + done.stderr
    assert done.returncode == 2
    assert set(re.findall(r"changed=(\d+)", done.stdout)) == {"0"}
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


def test_without_a_name_and_a_group_nothing_is_meant(controller, here):
    said = play(controller, {"control_host": {"hosts": {"control01": here}}})
    assert "No gateway is named: -e name=gw01, or hosts in the group gateway_host." in said


def test_what_is_wrong_with_machine_control_plane_and_settings_is_one_message(controller, here):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        wrong = {"gateway_name": "x" * 60, "fleet_servers": ["http://127.0.0.1:9"]}
        groups = {
            "control_host": {"hosts": {"control01": here}},
            "gateway_host": {"hosts": {"gw01": {**here, **wrong}}},
        }
        said = play(controller, groups, gateway_listen=f":{port}", runtime_python="/usr/bin/false")
    assert f"gw01: {'x' * 60} is no name of a gateway: small letters" in said
    assert "gw01: no Python 3.11 or newer with its standard library" in said
    assert f"gw01: port {port}, for clients, is held by" in said
    assert "control01 has no authority that could sign for a node" in said
    assert "The control plane on control01 does not answer" in said
    assert not Path("/etc/llmgw/gateway.yaml").exists()


def test_a_machine_that_is_named_and_has_no_address_is_said(controller, here):
    groups = {"control_host": {"hosts": {"control01": here}}}
    said = play(controller, groups, name="gw07")
    assert "'gw07' has no address" in said.replace('"', "'").replace("''", "'")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, {"tls", "servers", "listen", "name", "admin_listen", "gateway"}, id="tls"),
        pytest.param(
            {"gateway_servers": ["http://10.0.0.1:7443"]},
            {"servers", "listen", "name", "admin_listen", "gateway"},
            id="plaintext",
        ),
    ],
)
def test_settings_hold_what_the_inventory_says_and_certificates_where_they_are_used(
    controller, given, expected
):
    told = {
        "gateway_servers": ["https://10.0.0.1:7443"],
        "gateway_overrides": {"gateway": {"drain_delay_s": 1}},
        **given,
    }
    include = {"name": "llmgw.fleet.gateway", "tasks_from": "look", "public": True}
    played = controller.play(
        {"name": "Role", "ansible.builtin.include_role": include, "vars": told},
        {
            "name": "After",
            "ansible.builtin.debug": {"msg": "{{ _gateway_settings }}"},
            "vars": told,
        },
    )
    settings = played["After"]["msg"]
    assert settings.keys() == expected
    assert settings["gateway"] == {"workers": 1, "drain_delay_s": 1}


def test_the_unit_reaps_the_workers_of_its_own_settings():
    unit = (ROLE / "templates" / "llmgw-gateway.service.j2").read_text()
    assert (
        "ExecStopPost=-/usr/local/bin/llmgw gateway --config /etc/llmgw/gateway.yaml reap" in unit
    )
    assert "KillMode=process" in unit
