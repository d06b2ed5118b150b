"""``llmgw ctl`` as a process against a real admin listener: tables, documents and exit codes."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from llmgw.api.application import create_app
from llmgw.domain.nodes import EngineInstall, InstallState
from tests.fakes import commands
from tests.fakes.fleet import GPU_NODE, FakeFleet, FakeReadiness, control_of
from tests.fakes.listening import listening


@pytest.fixture
def fleet() -> FakeFleet:
    return FakeFleet()


@pytest.fixture
def admin(fleet: FakeFleet) -> Iterator[str]:
    control = control_of(fleet)
    with listening(create_app(readiness=FakeReadiness(), control=control)) as url:
        yield url


@pytest.fixture
def router_only() -> Iterator[str]:
    with listening(create_app(readiness=FakeReadiness())) as url:
        yield url


def ctl(url: str, *args: str) -> subprocess.CompletedProcess[str]:
    return commands.here("ctl", *args, environ={"LLMGW_CTL_URL": url})


def test_nodes_are_a_plain_table_on_a_pipe(admin):
    done = ctl(admin, "nodes")
    assert done.returncode == 0
    head, silent, stream, stray, gpu, card = done.stdout.splitlines()
    assert cells(head) == [
        "NODE", "STATE", "SEEN", "GPUS", "MEMORY FREE", "DISK FREE", "FABRIC", "ENGINES", "RUNNING",
    ]  # fmt: skip
    assert cells(silent) == [
        "cpu01", "unreachable", "4m12s", "none", "-", "-", "none", "-", "small-5e6f7a8b",
    ]  # fmt: skip
    assert stream == "  its agent has no connection to this control plane"
    assert stray == "  told to stop, not yet confirmed: old-00000000.0"
    assert cells(gpu) == [
        "gpu01", "ready", "2s", "h100-80g 1/1/1", "384.0 of 512.0 GiB",
        "100.0 of 400.0 GiB", "ib-a", "vllm 0.11.0", "big-1a2b3c4d",
    ]  # fmt: skip
    assert card == "  gpu 2 (h100-80g) is out of use: Xid 79 fell off"
    assert done.stderr == ""


def cells(line: str) -> list[str]:
    return re.split(r" {2,}", line)


def test_models_show_reason_and_last_failure_under_what_is_missing(admin):
    done = ctl(admin, "models")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "NAME    STATUS     READY   PROFILES  ORIGIN               DESCRIPTION",
        "asleep  on_demand  0 of 0  none      declared, simulated  -",
        "big     ready      1 of 1  gpu       declared             for long answers",
        "huge    unplaced   0 of 2  gpu, cpu  declared             -",
        "  no node has 8 free cards of class h100-80g",
        (
            "  huge-99999999 failed 1m05s ago on gpu01: "
            'the engine ended while it loaded (exit code 1); it said: "CUDA out of memory"'
        ),
        "off     off        0 of 0  none      declared             -",
        "small   loading    0 of 1  cpu       declared             -",
        "  cpu01 is fetching small.gguf: 3.0 GiB of 4.0 GiB (75 %)",
    ]


def test_replicas_show_a_download_under_the_one_that_fetches(admin):
    done = ctl(admin, "replicas")
    assert done.returncode == 0
    head, ready, starting, download = done.stdout.splitlines()
    assert cells(head) == [
        "REPLICA", "MODEL", "PROFILE", "STATE", "NODES", "ENDPOINT", "AGE", "IDLE", "REMARKS",
    ]  # fmt: skip
    assert cells(ready) == [
        "big-1a2b3c4d", "big", "gpu", "ready", "gpu01", "http://10.0.0.11:20000", "2h05m", "5m00s",
        "stale profile",
    ]  # fmt: skip
    assert cells(starting) == [
        "small-5e6f7a8b", "small", "cpu", "starting", "cpu01", "-", "12s", "-",
    ]  # fmt: skip
    assert download == "  cpu01 is fetching small.gguf: 3.0 GiB of 4.0 GiB (75 %)"


def test_status_is_one_page(admin):
    done = ctl(admin, "status")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "CONTROL   leader, term 3, up 2h05m, llmgw 0.1.0",
        "NODES     1 ready, 1 unreachable",
        "MODELS    1 loading, 1 off, 1 on_demand, 1 ready, 1 unplaced",
        "REPLICAS  1 ready, 1 starting",
        "",
        "GPU CLASS  USED  FREE  UNHEALTHY",
        "h100-80g   1     1     1",
        "",
        "FABRIC  NODES  WHOLLY FREE",
        "ib-a    1      0",
        "",
        "MISSING REPLICAS  REASON",
        "huge              no node has 8 free cards of class h100-80g",
        "",
        "IDLE REPLICA  MODEL  IDLE",
        "big-1a2b3c4d  big    5m00s",
    ]


def test_model_that_fits_nowhere_shows_every_node_with_its_reason_and_exits_7(admin):
    done = ctl(admin, "explain-placement", "huge")
    assert done.returncode == 7
    assert done.stdout.splitlines() == [
        "MODEL     huge",
        "REPLICAS  2 wanted, 0 ready, 0 starting",
        "RESULT    no node takes it",
        "",
        "GATE     STATE  DETAIL",
        "leader   open",
        "settled  shut   24 s left",
        "",
        "PROFILE gpu  vllm on h100-80g, priority 10",
        "0 of 2 nodes qualify",
        "NODE   FITS  REASON",
        "cpu01  no    no GPU",
        "gpu01  no    wants 8, free 1",
    ]


def test_model_that_fits_names_its_place_and_what_holds_it(admin):
    done = ctl(admin, "explain-placement", "small")
    assert done.returncode == 0
    assert "RESULT    would go to cpu01 (profile cpu), held by: backoff" in done.stdout


@pytest.mark.parametrize(
    ("args", "path"),
    [
        pytest.param(("status",), "status", id="status"),
        pytest.param(("nodes", "--state", "ready"), "nodes?state=ready", id="nodes"),
        pytest.param(("models",), "models", id="models"),
        pytest.param(("replicas", "--model", "big"), "replicas?model=big", id="replicas"),
        pytest.param(
            ("explain-placement", "small"), "models/small/placement", id="explain-placement"
        ),
        pytest.param(("logs", "gpu01", "--source", "agent"), "nodes/gpu01/logs", id="logs"),
        pytest.param(("wait", "big"), "models/big", id="wait"),
    ],
)
def test_document_for_programs_carries_the_same_facts_as_the_api(admin, args, path):
    done = ctl(admin, *args, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == httpx.get(f"{admin}/api/v1/{path}", trust_env=False).json()
    assert done.stderr == ""


def test_log_lines_cannot_steer_the_terminal(admin):
    done = ctl(admin, "logs", "gpu01", "--source", "agent", "--lines", "2")
    assert done.stdout.splitlines() == ["two\ufffd[31m", "three"]


def test_logs_without_a_source_lists_the_sources(admin):
    assert ctl(admin, "logs", "gpu01").stdout.splitlines() == ["SOURCE", "agent", "big-1a2b3c4d.0"]


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        pytest.param(("explain-placement", "x/../y"), 4, "Not Found", id="odd name"),
        pytest.param(("explain-placement", "none"), 4, "no model 'none'", id="unknown model"),
        pytest.param(("replicas", "--model", "none"), 4, "'llmgw ctl model list'", id="replicas"),
        pytest.param(("wait", "none"), 4, "no model 'none'", id="wait for an unknown model"),
        pytest.param(("wait", "off"), 5, "nothing will start it", id="wait for a model off"),
        pytest.param(("wait", "asleep"), 5, "send it a request", id="wait for one on demand"),
        pytest.param(("nodes", "--state", "raedy"), 2, "'unreachable'", id="unknown filter"),
        pytest.param(("wait", "big", "--timeout", "soon"), 2, "15m", id="bad duration"),
        pytest.param(("frob",), 2, "No such command 'frob'", id="unknown command"),
        pytest.param(("logs", "cpu01"), 1, "not connected (silent for", id="no stream"),
        pytest.param(("logs", "nope"), 4, "no node 'nope'", id="logs of an unknown node"),
    ],
)
def test_refusal_has_its_exit_code_and_a_sentence(admin, args, code, sentence):
    done = ctl(admin, *args)
    assert done.returncode == code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_nothing_listening_is_3_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = commands.here("ctl", "--admin", f"http://127.0.0.1:{port}", "status")
    assert done.returncode == 3
    assert f"no control plane answers at http://127.0.0.1:{port}" in done.stderr
    assert "llmgw up" in done.stderr
    assert "Traceback" not in done.stderr


def test_server_that_only_routes_explains_itself(router_only):
    done = ctl(router_only, "status")
    assert done.returncode == 3
    assert "only routes, there is no control plane here" in done.stderr


@pytest.mark.parametrize("status", [200, 404])
def test_address_of_something_else_is_recognised(status):
    app = FastAPI()

    @app.get("/{path:path}")
    async def answer(path: str) -> JSONResponse:
        error = {"message": "no such route", "type": "invalid_request_error", "code": None}
        return JSONResponse({"error": error} if status == 404 else [path], status_code=status)

    with listening(app) as url:
        done = ctl(url, "nodes")
    assert done.returncode == 3
    assert "not as an admin API" in done.stderr


def test_answer_of_another_shape_is_a_failure_with_a_sentence():
    app = FastAPI()

    @app.get("/api/v1/nodes")
    async def answer() -> dict[str, object]:
        return {"nodes": [{"name": "x"}]}

    with listening(app) as url:
        done = ctl(url, "nodes")
    assert done.returncode == 1
    assert "use the version of the server" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("url", ["127.0.0.1:9090", "ftp://127.0.0.1"])
def test_address_of_a_wrong_form_is_a_usage_error(url):
    done = commands.here("ctl", "--admin", url, "status")
    assert done.returncode == 2
    assert "is no admin address" in done.stderr


def test_proxy_of_the_environment_is_not_asked(admin):
    environ = {"LLMGW_CTL_URL": admin, "http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    assert commands.here("ctl", "status", environ=environ).returncode == 0


def test_terminal_gets_colour_and_bars(admin):
    shown = on_terminal("ctl", "nodes", url=admin)
    assert "\x1b[32mready" in shown
    assert "█" in on_terminal("ctl", "status", url=admin)


def test_terminal_without_colour_is_respected(admin):
    assert "\x1b[3" not in on_terminal("ctl", "nodes", url=admin, NO_COLOR="1")


def test_reader_that_leaves_early_sees_no_traceback(admin):
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m llmgw ctl nodes --json | head -c 1"],
        env=commands.environment({"LLMGW_CTL_URL": admin}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "{"
    assert "Traceback" not in done.stderr


def test_wait_follows_the_load_and_ends_when_the_model_serves(admin, fleet):
    process = commands.start("ctl", "wait", "small", environ={"LLMGW_CTL_URL": admin})
    assert process.stderr is not None
    first = process.stderr.readline()
    fleet.become_ready("small")
    out, err = process.communicate(timeout=60)
    assert first == "cpu01 is fetching small.gguf: 3.0 GiB of 4.0 GiB (75 %)\n"
    assert process.returncode == 0
    assert out.startswith("small is ready: 1 of 1 after ")
    assert err == ""


def test_wait_goes_on_while_the_control_plane_restarts(fleet):
    control = control_of(fleet)
    app = create_app(readiness=FakeReadiness(), control=control)
    with listening(app) as url:
        process = commands.start("ctl", "wait", "small", environ={"LLMGW_CTL_URL": url})
        assert process.stderr is not None
        process.stderr.readline()
    assert "no control plane answers" in process.stderr.readline()
    fleet.become_ready("small")
    with listening(app, port=int(url.rpartition(":")[2])):
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.startswith("small is ready")


def test_admin_address_may_follow_the_command(admin):
    assert commands.here("ctl", "status", "--admin", admin).returncode == 0


def test_wait_that_is_too_long_is_6_and_says_why(admin):
    done = ctl(admin, "wait", "huge", "--timeout", "0.2s")
    assert done.returncode == 6
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert "huge is unplaced with 0 of 2 ready" in last
    assert "no node has 8 free cards" in last
    assert "exit code 1" in last


def test_interrupted_wait_is_130(admin):
    process = commands.start("ctl", "wait", "small", environ={"LLMGW_CTL_URL": admin})
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err


def test_empty_fleet_says_what_to_do(admin, fleet):
    fleet.node_views = ()
    assert "start 'llmgw agent' on one" in ctl(admin, "nodes").stdout


def test_settling_is_said_on_the_page(admin, fleet):
    fleet.control = dataclasses.replace(fleet.control, settling_left_s=24.0)
    assert "waits 24s more for nodes" in ctl(admin, "status").stdout


def on_terminal(*args: str, url: str, **environ: str) -> str:
    """What a command writes to a terminal of 200 columns."""
    own, given = pty.openpty()
    settings = {"LLMGW_CTL_URL": url, "TERM": "xterm-256color", "COLUMNS": "200", **environ}
    process = subprocess.Popen(
        [sys.executable, "-m", "llmgw", *args],
        env=commands.environment(settings),
        stdin=subprocess.DEVNULL,
        stdout=given,
        stderr=given,
    )
    os.close(given)
    shown = bytearray()
    try:
        while chunk := _read(own):
            shown += chunk
    finally:
        os.close(own)
    assert process.wait(60) == 0
    return shown.decode()


def _read(terminal: int) -> bytes:
    """The next bytes; nothing once the other side has closed, which Linux reports as an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_an_engine_that_is_not_as_it_should_be_has_a_line_under_its_node(admin, fleet):
    installs = (
        EngineInstall("llamacpp", "b1", "cpu", InstallState.READY, "version: 1", "no AVX2"),
        EngineInstall("sglang", "0.5", "cu128", InstallState.READY, "sglang 0.5"),
        EngineInstall("vllm", "0.11", "", InstallState.FAILED, "the disk is full"),
    )
    fleet.node_views = [dataclasses.replace(GPU_NODE, gpus=(), engine_installs=installs)]
    assert ctl(admin, "nodes").stdout.splitlines()[2:] == [
        "  engine llamacpp b1: no AVX2",
        "  engine vllm 0.11 is failed: the disk is full",
    ]
    node = json.loads(ctl(admin, "nodes", "--json").stdout)["nodes"][0]
    assert [i["state"] for i in node["engine_installs"]] == ["ready", "ready", "failed"]


def test_what_is_wrong_with_fabrics_and_machine_stands_under_the_node(admin, fleet):
    why = "fabric ib: adapter mlx5_1 has no active port: port 1 is INIT/LinkUp"
    warned = "this processor offers no AVX2"
    fleet.node_views = [
        dataclasses.replace(GPU_NODE, gpus=(), fabric_problems=(why,), warnings=(warned,))
    ]
    assert ctl(admin, "nodes").stdout.splitlines()[2:] == [f"  {why}", f"  {warned}"]
    node = json.loads(ctl(admin, "nodes", "--json").stdout)["nodes"][0]
    assert (node["fabric_problems"], node["warnings"]) == ([why], [warned])


# An operator's word on a node


def test_a_cordoned_node_and_its_reason_are_said(admin):
    done = ctl(admin, "cordon", "gpu01", "--reason", "new cards")
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["gpu01 is cordoned: new cards", "it holds big-1a2b3c4d"]
    document = json.loads(ctl(admin, "uncordon", "gpu01", "--json").stdout)
    assert (document["state"], document["flag_reason"]) == ("ready", "")


def test_an_unknown_node_cannot_be_drained(admin):
    done = ctl(admin, "drain", "nobody")
    assert done.returncode == 4


def test_a_drain_that_is_waited_for_ends_with_the_last_replica(admin, fleet):
    waiting = commands.start("ctl", "drain", "gpu01", "--wait", environ={"LLMGW_CTL_URL": admin})
    assert waiting.stderr.readline() == "gpu01 still holds big-1a2b3c4d\n"
    fleet.node_views = [dataclasses.replace(n, replica_ids=()) for n in fleet.node_views]
    out, _ = waiting.communicate(timeout=30)
    assert waiting.returncode == 0
    assert out.splitlines() == ["gpu01 is draining", "it holds none"]


def test_a_drain_that_takes_too_long_is_exit_code_6_and_goes_on(admin, fleet):
    done = ctl(admin, "drain", "gpu01", "--wait", "--timeout", "0s")
    assert done.returncode == 6
    assert "still holds big-1a2b3c4d after 0s and goes on draining" in done.stderr
    assert {n.state for n in fleet.node_views if n.node_id == "gpu01"} == {"draining"}


def test_a_drain_that_somebody_called_off_is_not_waited_for(admin, fleet):
    waiting = commands.start("ctl", "drain", "gpu01", "--wait", environ={"LLMGW_CTL_URL": admin})
    waiting.stderr.readline()
    fleet.node_views = [dataclasses.replace(n, state="ready") for n in fleet.node_views]
    _, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 5
    assert "does not drain any more" in err


def test_refusals_have_their_reason_under_them(admin):
    done = ctl(admin, "refusals")
    assert cells(done.stdout.splitlines()[1]) == [
        "node03", "node02", "ipv4:10.0.0.3:41000", "4s", "3",
    ]  # fmt: skip
    assert done.stdout.splitlines()[2] == (
        "  certificate CN 'node02' does not match node id 'node03'"
    )
    assert json.loads(ctl(admin, "refusals", "--node", "x", "--json").stdout) == {"refusals": []}
