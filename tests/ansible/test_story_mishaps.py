"""What goes wrong in the middle is said with its reason, and the next run makes it good."""

from __future__ import annotations

import json
import re

import lab_releases
import pytest

pytestmark = [pytest.mark.story, pytest.mark.slow]


@pytest.fixture
def machine(cluster):
    """A booted machine that is blank."""
    host = cluster.machine("node12", last=152)
    clean(host)
    return host


def test_a_run_that_ended_after_any_step_is_finished_by_the_next(cluster, machine):
    steps = (
        "Its wheels are unpacked",
        "The release is the one in use",
        "The authority signs it",
        "The settings are in place",
        "A new node takes no replicas yet",
    )
    for step in steps:
        ended = cluster.add("node12", environ={"STOP_AFTER": step})
        assert ended.rc == 99, (step, ended.output)
    finished = cluster.add("node12")
    assert finished.rc == 0, finished.output
    assert cluster.seen("node12")["state"] == "ready"
    again = cluster.add("node12")
    assert again.changed == 0, again.changes()


def test_a_release_with_another_digest_is_refused_and_the_node_stays_cordoned(cluster, machine):
    cluster.releases.published = {lab_releases.ASSET: "0" * 64}
    try:
        refused = cluster.add("node12")
    finally:
        cluster.releases.published = {}
    assert refused.rc == 2
    assert "llamacpp" in refused.failure
    assert "000000000000" in refused.failure
    assert cluster.seen("node12")["state"] == "cordoned"
    assert cluster.seen("node12")["flag_reason"] == "onboarding"
    mended = cluster.add("node12")
    assert mended.rc == 0, mended.output
    assert cluster.seen("node12")["state"] == "ready"


def test_a_program_that_lacks_a_library_is_named_with_it(cluster, machine):
    program = b"#!/bin/sh\necho 'cannot open libfoo.so.1' >&2\nexit 127\n"
    broken = lab_releases.launcher_archive(program)
    good = cluster.releases.files[lab_releases.ASSET]
    cluster.releases.files[lab_releases.ASSET] = broken
    try:
        fatal = cluster.add("node12")
        said = cluster.add("node12", engine_fatal=False)
    finally:
        cluster.releases.files[lab_releases.ASSET] = good
    assert fatal.rc == 2
    assert "libfoo.so.1" in fatal.failure
    assert said.rc == 0, said.output
    assert cluster.seen("node12")["state"] == "ready"


def test_a_wheel_that_was_tampered_with_is_refused_on_the_host(cluster, machine):
    bundle = cluster.site.folder / "bundle"
    bundle.mkdir(exist_ok=True)
    (archive,) = (cluster.site.folder / "wheelhouse").glob("*-cp311-*-agent+local-*.tar")
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 1
    (bundle / archive.name).write_bytes(content)
    refused = cluster.add("node12", fleet_bundle=str(bundle))
    assert refused.rc == 2
    assert "FAILED" in refused.failure
    assert "wheels/" in refused.failure
    assert machine.run("ls", "/opt/llmgw").split() == ["releases"]


def test_an_agent_that_does_not_register_is_shown_with_its_last_lines(cluster, machine):
    failed = cluster.add("node12", agent_overrides={"node_id": "node13"}, fleet_start_wait_s=10)
    assert failed.rc == 2
    assert "node12 did not register with control01 within 10 s" in failed.failure
    assert "The last lines of llmgw-agent" in failed.failure
    assert re.search("node12.*node13|node13.*node12", failed.failure.partition("last lines")[2])


def test_a_service_that_does_not_start_is_shown_with_its_last_lines(cluster):
    settings = "/etc/llmgw/server.yaml"
    before = cluster.control.run("cat", settings)
    cluster.control.run("systemctl", "stop", "llmgw-server")
    cluster.control.run("chown", "root:root", "/etc/llmgw/server-key.pem")
    failed = cluster.site.play(
        "control-plane.yml", "-e", "control_start_wait_s=6", "--skip-tags", "certs"
    )
    assert failed.rc == 2
    assert "llmgw-server on control01 did not answer" in failed.failure
    assert "The last lines of llmgw-server" in failed.failure
    mended = cluster.site.play("control-plane.yml")
    assert mended.rc == 0, mended.output
    assert cluster.control.run("cat", settings) == before


def test_settings_that_a_person_wrote_are_not_overwritten(cluster):
    settings = "/etc/llmgw/server.yaml"
    before = cluster.control.run("cat", settings)
    cluster.control.run("sed", "-i", "1s/.*/# mine/", settings)
    try:
        refused = cluster.site.play("control-plane.yml")
    finally:
        cluster.control.write(settings, before)
        cluster.control.run("sh", "-c", f"chown root:llmgw {settings}; chmod 0640 {settings}")
    assert refused.rc == 2
    assert refused.changed == 0, refused.changes()
    assert "control_config_takeover=true" in refused.failure


def test_a_further_name_is_added_to_the_certificate_and_stays(cluster):
    added = cluster.site.play("control-plane.yml", "-e", "hosts_extra=llm.example.com")
    assert added.rc == 0, added.output
    without = cluster.site.play("control-plane.yml")
    assert without.rc == 0, without.output
    assert without.changed == 0, without.changes()
    words = ("llmgw", "ctl", "cert", "inspect", "--json", "/etc/llmgw/server.pem")
    hosts = json.loads(cluster.control.run(*words))["hosts"]
    assert {"llm.example.com", "control01", "127.0.0.1", cluster.control.address} <= set(hosts)


def clean(host):
    """What a node is made of is gone from the machine."""
    host.run(
        "sh",
        "-c",
        "systemctl kill --kill-whom=all --signal=KILL llmgw-agent; "
        "systemctl disable --now llmgw-agent; "
        "rm -rf /opt/llmgw /etc/llmgw /var/lib/llmgw* /usr/local/bin/llmgw "
        "/etc/systemd/system/llmgw-agent.service; systemctl daemon-reload",
        is_checked=False,
    )
