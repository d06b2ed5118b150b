"""Settings are checked on the machine, by the llmgw that will read them."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

MAY_FAIL = {"ignore_errors": True}


@pytest.fixture
def settings(tmp_path):
    return tmp_path / "agent.yaml"


def check(path, llmgw, *, task="check", keywords=None, **options):
    return {
        "name": task,
        "llmgw.fleet.config_check": {"path": str(path), "executable": llmgw, **options},
        **(keywords or {}),
    }


def program(path, body):
    """Something that is called llmgw and is none."""
    path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_settings_without_a_mistake_pass_and_are_left_alone(controller, settings, llmgw):
    settings.write_text("server: http://127.0.0.1:7443\n")
    before = settings.stat()
    played = controller.play(
        check(settings, llmgw, role="agent"),
        check(settings, llmgw, task="look", keywords={"check_mode": True}),
    )
    assert played.rc == 0, played.output
    assert played["check"]["ok"]
    assert played["check"]["role"] == "agent"
    assert played["look"]["ok"]
    assert not played["check"].changed
    assert settings.stat().st_mtime_ns == before.st_mtime_ns


def test_every_mistake_is_named_at_once(controller, settings, llmgw):
    settings.write_text("server: gw.lab:7443\nheartbeat_interval: soon\nlabel: {}\n")
    played = controller.play(
        check(settings, llmgw, role="agent", keywords=MAY_FAIL),
        check(settings, llmgw, task="told", role="agent", fail_on_mistakes=False),
    )
    assert played["check"].outcome == "failed"
    for word in (f"{settings} has ", "mistakes: ", "heartbeat_interval", "label"):
        assert word in played["check"]["msg"]
    assert played["told"].outcome == "ok"
    assert not played["told"]["ok"]
    assert {p["path"] for p in played["told"]["problems"]} >= {"heartbeat_interval", "label"}


def test_variables_of_the_service_count_and_those_of_the_caller_do_not(controller, settings, llmgw):
    settings.write_text("server: http://127.0.0.1:7443\n")
    service, missing = settings.with_name("agent.env"), settings.with_name("no.env")
    service.write_text(
        "# LLMGW_LOG__LEVEL=loud\n; x=y\n\nnothing\n"
        "LLMGW_RECONNECT_BASE = '2s'\nLLMGW_HEARTBEAT_INTERVAL=\"canary-s3cret\"\n"
    )
    options = {"role": "agent", "fail_on_mistakes": False}
    played = controller.play(
        check(settings, llmgw, task="caller", environment_file=str(missing), **options),
        check(settings, llmgw, task="service", environment_file=str(service), **options),
        environ={"LLMGW_HEARTBEAT_INTERVAL": "soon"},
    )
    assert played["caller"]["ok"], played.output
    assert [p["path"] for p in played["service"]["problems"]] == ["heartbeat_interval"]


def test_a_file_that_is_not_there_is_named(controller, settings, llmgw):
    played = controller.play(check(settings, llmgw, role="agent"))
    assert str(settings) in played["check"]["msg"]


@pytest.mark.parametrize(
    ("body", "said", "meaning"),
    [
        ("print('hello')", "printed no JSON: is its version the one", "failed"),
        ("print('[]')", "printed no JSON object", "failed"),
        ("sys.exit('llmgw: no such thing')", "no such thing", "failed"),
        ("sys.exit(5)", "ended with 5 and said nothing", "refused"),
        ("os.kill(os.getpid(), 9)", "ended with -9", "killed"),
        ("time.sleep(60)", "did not end within 0.5 s", "timeout"),
    ],
    ids=["no JSON", "no object", "a sentence", "silence", "killed", "too slow"],
)
def test_an_llmgw_that_misbehaves_is_told_apart(
    controller, settings, tmp_path, body, said, meaning
):
    fake = program(tmp_path / "llmgw", body)
    played = controller.play(check(settings, fake, timeout_s=0.5 if "sleep" in body else 30))
    assert played["check"].outcome == "failed"
    assert said in played["check"]["msg"]
    assert played["check"]["meaning"] == meaning


def test_what_a_command_started_ends_with_it(controller, settings, tmp_path):
    mark = tmp_path / "child"
    fake = program(
        tmp_path / "llmgw",
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(mark)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)",
    )
    controller.play(check(settings, fake, timeout_s=2))
    status = Path("/proc", mark.read_text(), "stat")
    assert not status.exists() or status.read_text().rpartition(") ")[2].startswith("Z")


def test_only_listed_variables_reach_the_command(controller, settings, tmp_path):
    fake = program(
        tmp_path / "llmgw",
        "print(json.dumps({'ok': True, 'problems': [], 'role': ' '.join(sorted(os.environ))}))",
    )
    played = controller.play(
        check(settings, fake), environ={"CANARY": "x", "https_proxy": "http://127.0.0.1:1"}
    )
    names = set(played["check"]["role"].split())
    assert {"PATH", "HOME", "https_proxy"} <= names
    assert names & {"CANARY", "TOLD", "ANSIBLE_HOME"} == set()


def test_a_path_is_one_word_whatever_it_holds(controller, tmp_path, llmgw):
    path = tmp_path / "--role=server $(touch pwned) ;.yaml"
    path.write_text("server: http://127.0.0.1:7443\n")
    played = controller.play(check(path, llmgw, role="agent"))
    assert played["check"]["ok"], played.output
    assert not (controller.home / "pwned").exists()
