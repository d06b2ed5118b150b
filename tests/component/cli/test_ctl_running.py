"""``ctl engines``, ``capacity``, ``decisions``, ``brake``, ``bench``, ``logs -f``, ``--watch``."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import pty
import signal
import subprocess
import sys

import pytest

from llmgw.api.application import create_app
from llmgw.domain.nodes import EngineInstall, InstallState
from llmgw.domain.status_views import BrakeView
from llmgw.domain.views import LogTail
from llmgw.kit.clock import SystemClock
from llmgw.serve.measured import Measured
from tests.fakes import commands
from tests.fakes.fleet import GPU_NODE, READY_REPLICA, FakeFleet, FakeReadiness, control_of
from tests.fakes.listening import listening

QUICK = ("--level-time", "0.3s", "--output-tokens", "4", "--most", "2", "--slo-ttft", "30s",
         "--slo-tpot-ms", "9000")  # fmt: skip


class GrowingLogs:
    """A log to which a line is added before each look but the first."""

    def __init__(self):
        self.looks = 0

    async def logs(self, *, node_id, source, lines):
        self.looks += 1
        written = tuple(f"line {number}" for number in range(self.looks + 1))
        return LogTail(lines=written[-lines:], sources=("agent",))


@pytest.fixture
def fleet():
    return FakeFleet()


@pytest.fixture
def control(fleet):
    return control_of(fleet)


@pytest.fixture
def admin(control):
    with listening(create_app(readiness=FakeReadiness(), control=control)) as url:
        yield url


def ctl(admin, *words):
    return commands.here("ctl", "--admin", admin, *words)


def test_engines_have_the_nodes_that_lack_them_under_them(admin, fleet):
    wanted = EngineInstall("sglang", "0.5.4", "", InstallState.FAILED, "no space left")
    fleet.node_views = [dataclasses.replace(GPU_NODE, engine_installs=(wanted,))]
    done = ctl(admin, "engines")
    assert done.stdout.splitlines() == [
        "ENGINE  VERSION  NODES  ON",
        "sglang  0.5.4    0      none",
        "  failed on gpu01: no space left",
        "vllm    0.11.0   1      gpu01",
    ]
    assert json.loads(ctl(admin, "engines", "--engine", "x", "--json").stdout) == {"engines": []}


def test_tables_come_without_headers_where_that_is_asked_before_or_after_the_command(admin):
    whole = ctl(admin, "nodes").stdout.splitlines()
    assert ctl(admin, "nodes", "--no-headers").stdout.splitlines() == whole[1:]
    before = commands.here("ctl", "--no-headers", "--admin", admin, "nodes")
    assert before.stdout.splitlines() == whole[1:]


def test_wide_nodes_have_address_and_labels(admin):
    done = ctl(admin, "nodes", "--wide", "--label", "rack=a")
    assert "ADDRESS" in done.stdout
    assert "10.0.0.11" in done.stdout
    assert "rack=a" in done.stdout


def test_decisions_have_their_reasons_and_who_was_left_out(admin):
    done = ctl(admin, "decisions")
    assert done.stdout.splitlines()[1:] == [
        "2026-01-01T00:00:00Z  7     Place   big-1a2b3c4d  fewer run than wanted",
        "  huge is not placed: no node has 8 free cards of class h100-80g",
    ]
    later = ctl(admin, "decisions", "--since", "2030-01-01T00:00:00")
    assert "no pass has done anything since then" in later.stdout


def test_a_brake_is_shown_with_the_way_to_lift_it_and_lifted(admin, fleet):
    assert ctl(admin, "brake").stdout == "the brake is off\n"
    brake = BrakeView(since_s=30.0, ends_in_s=570.0, node_ids=("n1", "n2"))
    fleet.control = dataclasses.replace(fleet.control, brake=brake)
    shown = ctl(admin, "brake").stdout
    assert "2 nodes fell silent at once 30s ago" in shown
    assert "'llmgw ctl brake --lift'" in shown
    assert ctl(admin, "brake", "--lift").stdout == "the brake is lifted\n"
    assert json.loads(ctl(admin, "brake", "--lift", "--json").stdout) == {"was_on": False}


# Measurements


@pytest.fixture
def served(fleet, start_sim):
    """The ready replica of the fleet, with a real engine behind it."""
    engine = start_sim(ttft_ms=1, tpot_ms=1)
    fleet.replica_views = [dataclasses.replace(READY_REPLICA, model="sim", url=engine.url)]
    return engine


def test_a_measurement_is_kept_shown_and_replaced(admin, served):
    assert "nothing is measured yet: 'llmgw ctl bench" in ctl(admin, "capacity").stdout
    for most in ("1", "2"):
        done = ctl(admin, "bench", "big-1a2b3c4d", "--save", *QUICK, "--most", most)
        assert done.returncode == 0, done.stderr
        assert "kept for sim, profile gpu" in done.stdout
    (row,) = ctl(admin, "capacity", "--no-headers").stdout.splitlines()
    assert row.split()[:3] == ["sim", "gpu", "2"]
    assert "TTFT 30 s" in row


def test_an_endpoint_names_its_replica_and_what_is_none_is_refused_before_any_request(
    admin, served
):
    done = ctl(admin, "bench", f"{served.url}/v1", "--json", *QUICK)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["is_saved"] is False
    refused = ctl(admin, "bench", "http://127.0.0.1:9", "--save", *QUICK)
    assert refused.returncode == 4
    assert "'llmgw ctl replicas' lists them" in refused.stderr


def test_a_result_that_cannot_be_kept_is_told_and_is_no_failure(control, served):
    unkept = dataclasses.replace(control, measurements=Measured(None, clock=SystemClock()))
    with listening(create_app(readiness=FakeReadiness(), control=unkept)) as url:
        done = ctl(url, "bench", "big-1a2b3c4d", "--save", *QUICK)
    assert done.returncode == 0
    assert "the result is not kept: this server has no store" in done.stderr
    assert "It carries" in done.stdout


def test_a_replica_that_starts_is_not_measured(admin):
    done = ctl(admin, "bench", "small-5e6f7a8b", *QUICK)
    assert done.returncode == 5
    assert "'llmgw ctl wait small' waits until it serves" in done.stderr


# Again and again


def test_a_log_is_followed_line_by_line_until_ctrl_c(control):
    growing = dataclasses.replace(control, logs=GrowingLogs())
    with listening(create_app(readiness=FakeReadiness(), control=growing)) as url:
        following = commands.start("ctl", "--admin", url, "logs", "gpu01", "-f")
        lines = [following.stdout.readline() for _ in range(3)]
        following.send_signal(signal.SIGINT)
        _, err = following.communicate(timeout=30)
    assert lines == ["line 0\n", "line 1\n", "line 2\n"]
    assert following.returncode == 0
    assert err == ""


def test_on_a_pipe_a_watch_writes_every_answer_until_ctrl_c(admin, fleet):
    watching = commands.start("ctl", "--admin", admin, "replicas", "--watch", "0.3s", "--json")
    first = json.loads(watching.stdout.readline())
    fleet.replica_views = []
    while json.loads(watching.stdout.readline())["replicas"]:
        pass
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=30)
    assert len(first["replicas"]) == 2
    assert (watching.returncode, err) == (0, "")


def test_a_watch_goes_on_while_nobody_answers(control):
    app = create_app(readiness=FakeReadiness(), control=control)
    with listening(app) as url:
        watching = commands.start("ctl", "--admin", url, "status", "--watch", "0.3s")
        assert watching.stdout.readline().startswith("at ")
    assert "no control plane answers" in watching.stderr.readline()
    with listening(app, port=int(url.rpartition(":")[2])):
        while not watching.stdout.readline().startswith("at "):
            pass
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=30)
    assert watching.returncode == 0


def test_on_a_terminal_a_watch_draws_over_itself_and_leaves_it_as_it_was(admin):
    own, given = pty.openpty()
    process = subprocess.Popen(
        [
            "env", "--default-signal=INT", sys.executable, "-m", "llmgw",
            "ctl", "--admin", admin, "status", "--watch", "0.2s",
        ],
        env=commands.environment({"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}),
        stdin=subprocess.DEVNULL,
        stdout=given,
        stderr=given,
    )  # fmt: skip
    os.close(given)
    shown = b""
    while shown.count(b"Ctrl-C ends it") < 2:
        shown += os.read(own, 65536)
    process.send_signal(signal.SIGINT)
    try:
        while chunk := os.read(own, 65536):
            shown += chunk
    except OSError:
        pass  # the other side has closed
    os.close(own)
    assert process.wait(30) == 0
    assert shown.count(b"\x1b[?1049h") == shown.count(b"\x1b[?1049l") == 1
    assert b"Traceback" not in shown


# Completion


def completed(words, current, *, admin):
    return commands.run(
        environ={
            "_LLMGW_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(current),
            "LLMGW_CTL_URL": admin,
        }
    ).stdout.split()


def test_shells_complete_commands_and_names_of_models_and_nodes(admin):
    assert "plain,decisions" in completed("llmgw ctl dec", 2, admin=admin)
    assert completed("llmgw ctl wait s", 3, admin=admin) == ["plain,small"]
    assert completed("llmgw ctl drain gpu", 3, admin=admin) == ["plain,gpu01"]
    assert completed("llmgw ctl replicas --node c", 4, admin=admin) == ["plain,cpu01"]


def test_without_a_control_plane_nothing_is_completed_and_nothing_is_said():
    assert completed("llmgw ctl wait s", 3, admin="http://127.0.0.1:9") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell):
    done = commands.here("completion", shell)
    assert done.returncode == 0
    assert "_LLMGW_COMPLETE" in done.stdout


# Whom to ask


def test_a_token_is_sent_along_and_a_file_that_is_not_there_is_told(admin, tmp_path):
    file = tmp_path / "token"
    assert commands.here(
        "ctl", "--token-file", str(file), "--admin", admin, "status"
    ).returncode == 2  # fmt: skip
    file.write_text("secret\n")
    done = commands.here("ctl", "--token-file", str(file), "--admin", admin, "status")
    assert done.returncode == 0
    assert "secret" not in done.stdout + done.stderr


def test_the_wait_for_an_answer_has_the_bound_that_is_given(admin, control):
    class Slow(GrowingLogs):
        async def logs(self, *, node_id, source, lines):
            await asyncio.sleep(30)

    slow = dataclasses.replace(control, logs=Slow())
    with listening(create_app(readiness=FakeReadiness(), control=slow)) as url:
        done = commands.here("ctl", "--timeout", "0.3s", "--admin", url, "logs", "gpu01")
    assert done.returncode == 3
    assert "did not answer within 0.3 s" in done.stderr
