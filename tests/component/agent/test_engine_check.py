"""Programs of engines are asked for their options, and whatever they do instead is ended."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from llmgw.agent.engines import help_asking, registry
from llmgw.config.settings import AgentSettings
from llmgw.config.tending import EnginesSettings, VllmSettings
from tests.fakes import commands

RECORDED = Path(__file__).parents[2] / "data" / "engine_help"
ENVIRON = {"PATH": os.defpath, "LLMGW_TLS__KEY": "secret"}


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return str(path)


def vllm(bin_path, ray):
    settings = AgentSettings(engines=EnginesSettings(vllm=VllmSettings(bin=bin_path, ray_bin=ray)))
    made = registry.drivers(settings, mgmt_addr="10.0.0.1", environ=ENVIRON)
    return registry.checkable("vllm", made)


def says(recorded):
    return f"print(open({str(RECORDED / recorded)!r}).read())"


@pytest.fixture
def ray(tmp_path):
    return program(tmp_path, "ray", says("ray-2.60.0.txt"))


def test_each_program_of_an_engine_is_asked_as_it_wants_to_be(tmp_path, ray):
    asked = tmp_path / "asked"
    script = (
        f"import os, sys; open({str(asked)!r}, 'w').write(' '.join(sys.argv[1:]) + ' '"
        " + os.environ['VLLM_TARGET_DEVICE'] + str('LLMGW_TLS__KEY' in os.environ)); "
    )
    made = vllm(program(tmp_path, "vllm", script + says("vllm-0.33.0.txt")), ray)
    found = help_asking.check(made, environ=ENVIRON)
    assert found.is_good, found
    assert [one.command for one in found.programs] == ["vllm", "ray"]
    assert asked.read_text() == "serve --help=all cpuFalse"


def test_a_program_that_starts_to_serve_instead_is_ended_with_its_children(tmp_path, ray):
    pids = tmp_path / "pids"
    made = vllm(
        program(
            tmp_path,
            "vllm",
            "import os, subprocess, time\n"
            "child = subprocess.Popen(['sleep', '60'])\n"
            f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
            "time.sleep(60)\n",
        ),
        ray,
    )
    began = time.monotonic()
    found = help_asking.check(made, environ=ENVIRON, timeout_s=1.5)
    assert time.monotonic() - began < 20
    assert found.programs[0].failure == "it did not answer within 1.5 s"
    assert found.programs[1].is_good
    for pid in pids.read_text().split():
        wait_gone(int(pid))


def test_a_program_that_leaves_children_which_print_without_end_has_answered(tmp_path, ray):
    """Their output would be waited for, and kept in memory, until the bound."""
    pids = tmp_path / "pids"
    children = (
        "import subprocess\n"
        "child = subprocess.Popen(['yes'])\n"
        f"open({str(pids)!r}, 'w').write(str(child.pid))\n"
    )
    made = vllm(program(tmp_path, "vllm", children + says("vllm-0.33.0.txt")), ray)
    began = time.monotonic()
    help_asking.check(made, environ=ENVIRON, timeout_s=60)
    assert time.monotonic() - began < 30
    wait_gone(int(pids.read_text()))


def wait_gone(pid):
    deadline = time.monotonic() + 10
    while _lives(pid):
        assert time.monotonic() < deadline, f"{pid} lives on"
        time.sleep(0.02)


def _lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_program_that_is_not_there_is_said(ray):
    found = help_asking.check(vllm("/no/vllm", ray), environ=ENVIRON)
    assert "/no/vllm cannot be started" in found.programs[0].failure
    assert not found.is_good


@pytest.mark.parametrize("engine", ["sim", "llamacpp"])
def test_our_own_programs_take_what_their_drivers_give_them(engine):
    done = commands.run("agent", "engine-check", engine, "--json")
    document = json.loads(done.stdout)
    assert document["is_good"], document
    assert document["programs"][0]["checked"] >= 5
    assert done.returncode == 0


def test_a_recorded_text_is_read_and_nothing_is_run(tmp_path):
    good = commands.run(
        *("agent", "engine-check", "sglang", "--bin", "/no/python"),
        *("--help-output", str(RECORDED / "sglang-0.5.23.txt")),
    )
    assert good.returncode == 0, good.stderr
    text = (RECORDED / "sglang-0.5.23.txt").read_text().replace("--enable-metrics", "--metrics-on")
    (tmp_path / "new.txt").write_text(text)
    bad = commands.run(
        "agent", "engine-check", "sglang", "--help-output", str(tmp_path / "new.txt")
    )
    assert bad.returncode == 7
    assert "it has no option --enable-metrics" in bad.stdout


def test_an_engine_that_nobody_knows_is_named_with_those_that_are():
    done = commands.run("agent", "engine-check", "llama.cpp")
    assert done.returncode == 4
    assert "did you mean llamacpp?" in done.stderr
