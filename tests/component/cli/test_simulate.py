"""``llmgw simulate agents`` as a person and a program meet it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

from tests.fakes import commands
from tests.fakes.engines import free_port


def nowhere():
    return f"127.0.0.1:{free_port()}"


def test_ctrl_c_ends_all_nodes_and_tells_how_it_went():
    running = commands.start("simulate", "agents", "--count", "3", "--server", nowhere())
    try:
        first = running.stderr.readline()
        assert first.startswith("0 s: 0 of 3 nodes are in")
        began = time.monotonic()
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=20)
    finally:
        running.kill()
    assert time.monotonic() - began < 10
    assert running.returncode == 0
    facts = dict(line.split(maxsplit=1) for line in out.splitlines() if line.startswith("nodes"))
    assert facts == {"nodes": "3, of which 0 got in"}
    assert "seed" in out
    assert "Traceback" not in err
    assert "\x1b" not in out + err


def test_a_run_in_which_a_node_never_got_in_is_a_no():
    done = commands.here(
        "simulate", "agents", "--count", "2", "--server", nowhere(), "--for", "1.5s", "--json",
        "--seed", "4",
    )  # fmt: skip
    assert done.returncode == 7
    told = json.loads(done.stdout)
    assert (told["nodes"], told["ever_registered"], told["seed"]) == (2, 0, 4)
    assert told["all_in_after_s"] is None
    assert "nothing listens there" in told["refusal"]
    assert told["memory_bytes_each"] > 0


def test_mistakes_are_told_before_anybody_dials():
    done = commands.here("simulate", "agents", "--hardware", "h200", "--hardware", "no.json")
    assert done.returncode == 2
    assert "the hardware cannot be simulated" in done.stderr
    assert "h200: no such machine; give a JSON file or one of a100-pcie, cpu" in done.stderr
    assert "no.json: cannot be read" in done.stderr


def test_a_heartbeat_without_a_pause_is_refused():
    done = commands.here("simulate", "agents", "--heartbeat", "0s", "--for", "1s")
    assert done.returncode == 2
    assert "give at least 0.1s" in done.stderr


def test_plaintext_to_another_machine_must_be_asked_for():
    done = commands.here("simulate", "agents", "--server", "control.example:7443", "--for", "1s")
    assert done.returncode == 2
    assert "control.example:7443" in done.stderr
    assert "write http://" in done.stderr


def test_too_low_a_bound_on_files_is_told_with_the_way_out():
    words = 'ulimit -n 400 && exec "$0" -m llmgw simulate agents --count 200 --server 127.0.0.1:1'
    done = subprocess.run(
        ["bash", "-c", words, sys.executable],
        env=commands.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "1056 open files are needed and at most 400 are allowed here" in done.stderr


def test_ctrl_c_while_certificates_are_signed_leaves_no_key_behind(tmp_path):
    made = commands.here("ctl", "cert", "init-ca", "--dir", str(tmp_path / "ca"))
    assert made.returncode == 0
    running = commands.start(
        "simulate", "agents", "--count", "2000", "--ca", str(tmp_path / "ca"),
        "--server", nowhere(), environ={"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    try:
        assert running.stderr.readline().startswith("2000 certificates are signed by ")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=20)
    finally:
        running.kill()
    assert running.returncode == 0
    assert "0 got in" in out
    assert "Traceback" not in err
    assert list(tmp_path.glob("llmgw-simulated-*")) == []
