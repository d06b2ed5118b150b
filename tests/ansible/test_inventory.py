"""The fleet as an inventory: read through ``ansible-inventory`` and real plays."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml
from admin_double import Fault

ERRORS = {"ANSIBLE_INVENTORY_UNPARSED_FAILED": "true"}


@pytest.fixture
def source(tmp_path, admin):
    """Writes an inventory of this plugin; the path."""

    def write(**options):
        folder = tmp_path / "inventory"
        folder.mkdir(exist_ok=True)
        path = folder / "lab.llmgw.nodes.yml"
        given = {"plugin": "llmgw.fleet.nodes", "url": admin.url, **options}
        path.write_text(yaml.safe_dump(given))
        return path

    return write


def listed(controller, path, **environ):
    done = controller.run("ansible-inventory", "-i", str(path), "--list", environ=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout, object_hook=_text), done.stderr


def _text(value):
    """Ansible lists a text that is never a template in a wrapping of its own."""
    return value["__ansible_unsafe"] if set(value) == {"__ansible_unsafe"} else value


def members(inventory, group):
    return sorted(inventory.get(group, {}).get("hosts", []))


def variables(inventory, host):
    return inventory["_meta"]["hostvars"][host]


GPU = {"gpu_class": "h100-80g", "index": 0}


def test_nodes_are_hosts_in_the_groups_of_what_they_are(controller, admin, source):
    fabric = {"name": "ib-0", "hcas": ["mlx5_0"]}
    admin.add("node05", gpus=[GPU, GPU], fabrics=[fabric], mgmt_addr="10.0.0.145")
    admin.add("node06", state="cordoned", engine_versions={"llamacpp": "b1", "vllm": "0.9"})
    admin.add("node07", state="lost", engine_versions=None, memory_total_mb=None, mgmt_addr="")
    inventory, said = listed(controller, source())
    assert said == ""
    groups = {group: members(inventory, group) for group in inventory if group != "_meta"}
    assert groups == {
        "all": [],
        "cpu_only": ["node06", "node07"],
        "engine_llamacpp": ["node05", "node06"],
        "engine_vllm": ["node06"],
        "fabric_ib_0": ["node05"],
        "gpu_h100_80g": ["node05"],
        "node_host": ["node05", "node06", "node07"],
        "state_cordoned": ["node06"],
        "state_lost": ["node07"],
        "state_ready": ["node05"],
    }
    assert variables(inventory, "node05") == {
        "ansible_host": "10.0.0.145",
        "llmgw_engines": {"llamacpp": "b10991"},
        "llmgw_fabrics": ["ib-0"],
        "llmgw_gpu_classes": ["h100-80g"],
        "llmgw_labels": {},
        "llmgw_last_seen_s": 1.5,
        "llmgw_memory_total_mb": 8192,
        "llmgw_state": "ready",
        "llmgw_version": "0.1.0",
    }
    assert "ansible_host" not in variables(inventory, "node07")
    assert variables(inventory, "node07")["llmgw_memory_total_mb"] is None
    assert admin.orders == []


def test_a_static_host_and_a_reported_one_are_one_and_the_static_word_wins(
    controller, admin, source
):
    admin.add("node05", mgmt_addr="10.0.0.145")
    path = source()
    for name in ("a-first.yml", "z-last.yml"):
        host = {"ansible_host": "10.9.9.9", "llmgw_labels": {"from": name}, "mine": 1}
        static = path.with_name(name)
        static.write_text(yaml.safe_dump({"all": {"hosts": {"node05": host}}}))
        inventory, _ = listed(controller, path.parent)
        assert members(inventory, "node_host") == ["node05"]
        found = variables(inventory, "node05")
        assert found["ansible_host"] == "10.9.9.9"
        assert found["llmgw_labels"] == {"from": name}
        assert found["mine"] == 1
        assert found["llmgw_state"] == "ready"
        static.unlink()


def test_what_a_node_says_is_text_and_runs_nowhere(controller, admin, source, tmp_path):
    pwned = tmp_path / "pwned"
    label = "{{ lookup('pipe', 'touch " + str(pwned) + "') }}"
    admin.add(
        "node05",
        labels={"rack": label, label: "key"},
        agent_version=label,
        engine_versions={"llamacpp": label},
        fabrics=[{"name": label, "hcas": []}],
        gpus=[{"gpu_class": label, "index": 0}],
        state=label,
    )
    inventory = source(
        compose={"rack": "llmgw_labels.rack", "shout": "llmgw_version | upper"},
        keyed_groups=[{"key": "llmgw_labels.rack", "prefix": "rack"}],
        groups={"labelled": "llmgw_labels.rack is defined"},
    )
    shown = {"seen": "{{ [llmgw_labels, llmgw_version, llmgw_engines, llmgw_state, rack, shout] }}"}
    played = controller.play(
        {"name": "shown", "ansible.builtin.set_fact": shown},
        {"name": "seen twice", "ansible.builtin.debug": {"msg": "{{ seen }} {{ rack }}"}},
        {"name": "labelled", "ansible.builtin.debug": {"msg": "{{ group_names }}"}},
        inventory=inventory,
        hosts="node_host",
    )
    assert played.rc == 0, played.output
    labels, version, engines, state, rack, _ = played["shown"]["ansible_facts"]["seen"]
    assert labels["rack"] == version == engines["llamacpp"] == state == rack == label
    assert label in played["seen twice"]["msg"]
    groups = played["labelled"]["msg"]
    assert "labelled" in groups
    assert not [group for group in groups if group.startswith(("state_", "gpu_", "fabric_"))]
    assert not pwned.exists()


@pytest.mark.parametrize("is_cached", [False, True], ids=["asked", "from the cache"])
def test_what_comes_from_the_cache_is_text_too(controller, admin, source, tmp_path, is_cached):
    pwned = tmp_path / "pwned"
    label = "{{ lookup('pipe', 'touch " + str(pwned) + "') }}"
    admin.add("node05", labels={"rack": label})
    cache = {
        "cache": is_cached,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(tmp_path / "cache"),
    }
    path = source(**cache)
    for _ in range(2):
        played = controller.play(
            {"name": "shown", "ansible.builtin.debug": {"msg": "{{ llmgw_labels.rack }}"}},
            inventory=path,
            hosts="node_host",
        )
        assert played["shown"]["msg"] == label, played.output
    assert len(admin.log) == (1 if is_cached else 2)
    assert not pwned.exists()


@pytest.mark.parametrize(
    "address", ["-oProxyCommand=touch pwned", "node05.lab", "10.0.0.1 -v", "{{ 1 }}"]
)
def test_an_address_that_is_none_never_becomes_a_word_of_ssh(controller, admin, source, address):
    admin.add("node05", mgmt_addr=address)
    inventory, said = listed(controller, source())
    assert "ansible_host" not in variables(inventory, "node05")
    assert "is no IP address and not used" in " ".join(said.split())


@pytest.mark.parametrize("name", ["localhost", "all", "-oProxyCommand=x", "a b", "{{ 1 }}", ""])
def test_a_node_that_can_be_no_host_is_left_out_and_said(controller, admin, source, name):
    admin.add(name)
    admin.add("node06")
    inventory, said = listed(controller, source())
    assert members(inventory, "node_host") == ["node06"]
    assert "a node is left out" in said


def test_an_older_name_with_capitals_and_dots_is_still_a_host(controller, admin, source):
    admin.add("Node5.lab")
    inventory, _ = listed(controller, source())
    assert members(inventory, "node_host") == ["Node5.lab"]


def test_a_control_plane_that_is_away_is_an_error_and_no_empty_fleet(controller, source):
    path = source(url="http://127.0.0.1:1")
    done = controller.run("ansible-inventory", "-i", str(path), "--list", environ=ERRORS)
    assert done.returncode != 0
    assert "cannot be reached" in done.stderr


def test_beside_other_sources_it_is_a_warning_and_they_stand(controller, source):
    path = source(url="http://127.0.0.1:1")
    path.with_name("hosts.yml").write_text("all: {hosts: {control01: {}}}\n")
    inventory, said = listed(controller, path.parent, **ERRORS)
    assert "control01" in str(inventory)
    assert "cannot be reached" in said


def test_no_hosts_are_accepted_only_by_choice_and_with_a_warning(controller, source):
    path = source(url="http://127.0.0.1:1", fail_if_unreachable=False)
    inventory, said = listed(controller, path, **ERRORS)
    assert members(inventory, "node_host") == []
    assert "has no hosts: the control plane at http://127.0.0.1:1" in " ".join(said.split())


def test_an_answer_of_another_kind_is_an_error(controller, admin, source):
    admin.faults = [Fault(200, b"<html>hello</html>")] * 9
    done = controller.run("ansible-inventory", "-i", str(source()), "--list", environ=ERRORS)
    assert done.returncode != 0
    assert "not as an admin API" in done.stderr


def test_a_file_of_another_name_is_none_of_ours(controller, source):
    path = source()
    other = path.rename(path.with_name("nodes.yml"))
    done = controller.run(
        "ansible-inventory",
        *("-i", str(other), "--list"),
        environ={**ERRORS, "ANSIBLE_INVENTORY_ENABLED": "llmgw.fleet.nodes"},
    )
    assert done.returncode != 0


def ctl(path: Path, document, *, log: Path) -> Path:
    """A program that prints the nodes as ``llmgw ctl nodes --json`` does."""
    path.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        f"open({str(log)!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
        f"print({json.dumps(document)!r})\n"
    )
    path.chmod(0o755)
    return path


def test_the_control_plane_asks_itself(controller, admin, source, tmp_path):
    admin.add("node05")
    log = tmp_path / "log"
    program = ctl(tmp_path / "llmgw", {"nodes": list(admin.nodes.values())}, log=log)
    inventory, _ = listed(controller, source(via="local", executable=str(program)))
    assert members(inventory, "state_ready") == ["node05"]
    assert json.loads(log.read_text()) == ["ctl", "nodes", "--json"]


def test_a_controller_elsewhere_asks_over_ssh(controller, admin, source, tmp_path):
    admin.add("node05")
    log, folder = tmp_path / "log", tmp_path / "bin"
    folder.mkdir()
    ctl(folder / "ssh", {"nodes": list(admin.nodes.values())}, log=log)
    path = f"{folder}:{Path(sys.executable).parent}:/usr/bin:/bin"
    options = {"via": "ssh", "ssh_host": "root@10.0.0.10", "ssh_args": ["-p", "2222"]}
    inventory, _ = listed(controller, source(**options), PATH=path)
    assert members(inventory, "state_ready") == ["node05"]
    words = json.loads(log.read_text())
    bounds = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
    asked = ["/usr/local/bin/llmgw", "ctl", "nodes", "--json"]
    assert words == [*bounds, "-p", "2222", "--", "root@10.0.0.10", *asked]
    assert admin.log == []


def test_ssh_without_a_host_is_refused(controller, source):
    path = source(via="ssh")
    done = controller.run("ansible-inventory", "-i", str(path), "--list", environ=ERRORS)
    assert done.returncode != 0
    assert "needs ssh_host" in done.stderr
