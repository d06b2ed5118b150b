"""The modules and the inventory against the product itself: what the double says must be so."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time

import pytest
import yaml
from admin_double import node as doubled

pytestmark = pytest.mark.slow

SETTINGS = {
    "models": [
        {
            "name": "sim",
            "source": "sim",
            "scaling": {"min": 1, "max": 1},
            "profiles": [{"name": "cpu", "engine": "sim"}],
        }
    ]
}
PORTS = ("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
LABELS = '{"rack": "{{ 1 + 1 }}"}'
WITHIN_S = 90


@pytest.fixture
def admin_url(tmp_path, llmgw):
    """The admin address of a running control plane with one node, which serves one model."""
    settings, log = tmp_path / "server.yaml", tmp_path / "up.log"
    settings.write_text(yaml.safe_dump(SETTINGS))
    words = [llmgw, "up", "--data", str(tmp_path / "data"), "--config", str(settings), *PORTS]
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            env={
                **os.environ,
                "LLMGW_NODE_ID": "node05",
                "LLMGW_LABELS": '{"rack": "{{ 1 + 1 }}"}',
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield _said(process, log, r"LLMGW_CTL_URL=(\S+)")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def _said(process, log, pattern):
    deadline = time.monotonic() + WITHIN_S
    while (found := re.search(pattern, log.read_text())) is None:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return found[1]


def test_a_node_is_seen_cordoned_drained_and_freed(controller, admin_url):
    def node(task, **options):
        given = {"name": "node05", "url": admin_url, **options}
        return {"name": task, "llmgw.fleet.node": given}

    may_fail = {"ignore_errors": True}
    played = controller.play(
        {"name": "seen", "llmgw.fleet.node_info": {"url": admin_url}},
        node("cordon", state="cordoned", reason="new disks"),
        node("again", state="cordoned", reason="new disks"),
        {**node("look", state="drained"), "check_mode": True},
        {**node("drain", state="drained", wait_s=2, poll_s=0.5), **may_fail},
        {**node("forget", state="absent"), **may_fail},
        node("free"),
        node("freed"),
    )
    assert played.rc == 0, played.output
    (seen,) = played["seen"]["nodes"]
    assert set(doubled("node05")) <= set(seen)
    assert seen["labels"] == {"rack": "{{ 1 + 1 }}"}
    changed = [name for name, told in played.tasks.items() if told.changed]
    assert changed == ["cordon", "look", "drain", "free"]
    assert [item["model"] for item in played["look"]["left"]] == ["sim"]
    assert "it stays draining" in played["drain"]["msg"]
    assert "stop its agent first" in played["forget"]["msg"]
    assert played["freed"]["state"] == "ready"


def test_the_inventory_lists_what_runs(controller, admin_url, tmp_path):
    source = tmp_path / "up.llmgw.nodes.yml"
    source.write_text(yaml.safe_dump({"plugin": "llmgw.fleet.nodes", "url": admin_url}))
    played = controller.play(
        {"name": "groups", "ansible.builtin.debug": {"msg": "{{ group_names }}"}},
        {"name": "label", "ansible.builtin.debug": {"msg": "{{ llmgw_labels.rack }}"}},
        inventory=source,
        hosts="node_host",
    )
    assert played.rc == 0, played.output
    assert {"node_host", "state_ready", "engine_sim"} <= set(played["groups"]["msg"])
    assert played["label"]["msg"] == "{{ 1 + 1 }}"
