"""``llmgw config check`` through the real door."""

from __future__ import annotations

import json

import pytest

from tests.fakes import commands


@pytest.fixture
def file(tmp_path):
    return tmp_path / "settings.yaml"


FIVE_MISTAKES = """
listen: 8080
router: {retries: 3}
control: {interval: soon, lost_after: 5s}
log: {level: loud}
"""


def test_five_mistakes_are_listed_without_a_traceback_and_end_with_2(file):
    file.write_text(FIVE_MISTAKES)
    done = commands.here("config", "check", str(file))
    assert done.returncode == 2
    assert done.stdout == ""
    first, *mistakes = done.stderr.splitlines()
    assert first == f"llmgw: {file}: 5 mistakes"
    assert [line.split(":")[0].strip() for line in mistakes] == [
        "listen",
        "log.level",
        "router.retries",
        "control.interval",
        "control.lost_after",
    ]


def test_a_program_reads_the_mistakes_as_json(file):
    file.write_text(FIVE_MISTAKES)
    done = commands.here("config", "check", str(file), "--json")
    assert done.returncode == 2
    said = json.loads(done.stdout)
    assert (said["file"], said["role"], said["ok"]) == (str(file), "server", False)
    assert len(said["problems"]) == 5
    assert said["problems"][0]["path"] == "listen"


@pytest.mark.parametrize(
    ("text", "role"),
    [
        pytest.param("listen: ':1'\n", "server", id="server"),
        pytest.param("server: http://h:1\nnode_id: n\n", "agent", id="agent"),
        pytest.param("server: http://h:1\nname: gw01\nlisten: ':1'\n", "gateway", id="gateway"),
    ],
)
def test_the_role_is_found_by_the_keys(file, text, role):
    file.write_text(text)
    done = commands.here("config", "check", str(file), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "file": str(file),
        "role": role,
        "ok": True,
        "problems": [],
    }


def test_a_file_that_could_be_for_either_asks_which(file):
    file.write_text("log: {level: debug}\n")
    done = commands.here("config", "check", str(file))
    assert done.returncode == 2
    assert "--role" in done.stderr
    assert commands.here("config", "check", str(file), "--role", "server").returncode == 0


def test_a_missing_file_is_a_mistake(file):
    done = commands.here("config", "check", str(file))
    assert done.returncode == 2
    assert "No such file" in done.stderr


def test_the_environment_counts_as_at_a_start(file):
    file.write_text("listen: ':1'\n")
    done = commands.here("config", "check", str(file), environ={"LLMGW_GATEWAY__WORKERS": "many"})
    assert done.returncode == 2
    assert "LLMGW_GATEWAY__WORKERS" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(b"models: [\n  foo: {\n", "is no YAML: line 3", id="cut off"),
        pytest.param(b"log:\n\tlevel: debug\n", "is no YAML: line 2", id="indented by a tab"),
        pytest.param(b"\xff\xfe\x00", "is no text in UTF-8", id="no text"),
        pytest.param(b"- listen\n", "holds no sections", id="a list"),
        pytest.param(b"a: " + b"[" * 2000, "is nested too deeply", id="nested without end"),
    ],
)
def test_a_file_that_is_for_nobody_says_why(file, text, said):
    file.write_bytes(text)
    done = commands.here("config", "check", str(file))
    assert done.returncode == 2
    assert said in done.stderr
    assert "--role" not in done.stderr
