"""A machine on which nothing is as it should be is looked at to the end, and nothing is made there.

The playbook is the real one; this machine stands in for a control plane and a node that are blank.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from playing import ROOT, Controller

PLAYBOOKS = ROOT / "playbooks"
FOLDER = Path("/etc/llmgw")
CONTROL = {
    *("control.active", "control.enabled", "control.health", "control.admin"),
    *("control.agent_port", "certs.good", "certs.name", "certs.names", "certs.days", "certs.key"),
    "certs.authority",
}
GATEWAY = {
    *("gateway.active", "gateway.enabled", "gateway.health", "gateway.connected"),
    *("gateway.version", "certs.good", "certs.name", "certs.days", "certs.key", "certs.authority"),
    "host",
}
NODE = {
    *("agent.active", "agent.enabled", "agent.kill_mode", "agent.connected", "agent.state"),
    *("agent.version", "certs.good", "certs.name", "certs.days", "certs.key", "certs.authority"),
    *("engine.llamacpp", "host"),
}

pytestmark = pytest.mark.skipif(FOLDER.exists(), reason="llmgw is installed on this machine")


@pytest.fixture(scope="module")
def verified(tmp_path_factory):
    """How ``verify.yml`` ends for three blank hosts, and the report that it wrote."""
    tmp_path = tmp_path_factory.mktemp("verified")
    controller = Controller(home=tmp_path)
    here = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": controller.interpreter,
        "ansible_host": "127.0.0.1",
    }
    groups = {
        "control_host": {"hosts": {"control01": {**here, "control_listen": "127.0.0.1:9"}}},
        "node_host": {"hosts": {"node05": {**here, "fleet_servers": ["https://127.0.0.1:9"]}}},
        "gateway_host": {"hosts": {"gw01": {**here, "fleet_servers": ["https://127.0.0.1:9"]}}},
    }
    inventory, report = tmp_path / "hosts.yml", tmp_path / "report.json"
    variables = {"certs_ca_dir": str(tmp_path), "fleet_admin_url": "http://127.0.0.1:9"}
    inventory.write_text(yaml.safe_dump({"all": {"vars": variables, "children": groups}}))
    done = controller.run(
        *("ansible-playbook", "-i", str(inventory), "-e", f"report={report}"),
        *("-e", "control_admin_listen=127.0.0.1:9", "-e", "control_agent_listen=127.0.0.1:9"),
        *("-e", "gateway_listen=127.0.0.1:9", "-e", "gateway_admin_listen=127.0.0.1:9"),
        str(PLAYBOOKS / "verify.yml"),
        environ={"ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg")},
    )
    assert report.exists(), done.stdout + done.stderr
    return done, json.loads(report.read_text())


def test_every_check_of_a_blank_machine_is_red_and_says_what_to_do(verified):
    done, report = verified
    assert done.returncode == 2
    wrong = {host: {c["id"]: c["say"] for c in report[host]["wrong"]} for host in report}
    assert CONTROL - wrong["control01"].keys() == set(), done.stdout
    assert NODE - wrong["node05"].keys() == set(), done.stdout
    assert GATEWAY - wrong["gw01"].keys() == set(), done.stdout
    assert all(say.strip() for checks in wrong.values() for say in checks.values())
    assert "Traceback" not in json.dumps(wrong)


def test_looking_makes_nothing(verified):
    done, _report = verified
    assert set(re.findall(r"changed=(\d+)", done.stdout)) == {"0"}
    assert not FOLDER.exists()
