"""``llmgw up`` as a person meets it: one command, one answer, one Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess

import httpx
import pytest

from tests.fakes.deployment import llmgw

PORTS = ("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")


@pytest.fixture
def data(tmp_path, tiny_gguf):
    """A data folder with one model in it, as ``make up`` leaves it."""
    models = tmp_path / "data" / "models"
    models.mkdir(parents=True)
    (models / "Tiny-Random.Q4_1.gguf").symlink_to(tiny_gguf)
    return tmp_path / "data"


@pytest.fixture
def once(deployment, monkeypatch):
    """Run ``llmgw up --once`` to its end; what it started is ended with the test."""
    monkeypatch.setenv("DEPLOYMENT_MARK", str(deployment.root))

    def run(*words, within_s=60):
        command = llmgw("up", "--once", "Hi", *words)
        return subprocess.run(
            command, capture_output=True, text=True, timeout=within_s, check=False
        )

    return run


def test_once_prints_the_answer_alone_and_leaves_nothing(once, data, deployment):
    ran = once("--data", data)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip()
    assert "is loading tiny-random" in ran.stderr
    assert "waiting for nodes" not in ran.stderr
    assert "loading" not in ran.stdout
    assert deployment.engines() == {}


def test_once_shows_what_the_engine_said_when_it_does_not_start(once, tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(1000))
    ran = once("--data", tmp_path / "data", "--model", broken)
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert "broken does not start" in ran.stderr
    assert "\n  | " in ran.stderr
    assert ran.stderr.count("did not start; trying once more") == 1
    assert ran.stderr.count("does not start") == 1
    assert "replica_failed" not in ran.stderr
    assert "replica_failed" in (tmp_path / "data" / "up.log").read_text()
    assert "Traceback" not in ran.stderr


def test_without_a_model_it_says_how_to_get_one(once, tmp_path):
    ran = once("--data", tmp_path / "data")
    assert ran.returncode == 2
    assert "llmgw up --model" in ran.stderr


def test_a_model_file_that_is_not_there_is_a_mistake_of_the_caller(once, tmp_path):
    ran = once("--data", tmp_path / "data", "--model", tmp_path / "nosuch.gguf")
    assert ran.returncode == 2
    assert "no such file" in ran.stderr


@pytest.fixture
def up(deployment, data):
    """A running ``llmgw up``, and the address that it said."""
    part = deployment.run("up", "up", "--data", data, *PORTS)
    return part, part.wait_said(r"^tiny-random is served at (\S+)")


def test_it_says_what_to_type_next(up):
    part, url = up
    assert f"curl {url}/chat/completions" in part.output
    assert "from openai import OpenAI" in part.output
    assert "pip install openai" in part.output
    assert "llmgw ctl status" in part.output
    [line] = [line for line in part.output.splitlines() if " -d '" in line]
    body = line.strip().removeprefix("-d '").removesuffix("'")
    answer = httpx.post(f"{url}/chat/completions", content=body, timeout=30)
    assert answer.status_code == 200


def test_ctrl_c_ends_its_engines(up, deployment):
    part, _ = up
    assert len(deployment.engines()) == 1
    os.kill(part.pid, signal.SIGINT)
    assert part.wait() == 0
    assert part.output.rstrip().endswith("stopping…\nstopped")
    assert deployment.engines() == {}


def models(part):
    """What the admin API shows, and where it is."""
    url = part.wait_said(r"LLMGW_CTL_URL=(\S+)") + "/api/v1/models"
    shown = httpx.get(url, timeout=10).raise_for_status().json()["models"]
    return url, {model["name"]: model["origin"] for model in shown}


def test_after_a_kill_the_next_one_adopts_the_engine_and_knows_what_was_added(
    up, deployment, data, once, tiny_gguf
):
    part, _ = up
    engines = deployment.engines()
    url, _ = models(part)
    late = {"name": "late", "source": str(tiny_gguf), "scaling": {"min": 0, "max": 1}}
    late["profiles"] = [{"name": "cpu", "engine": "llamacpp"}]
    assert httpx.post(url, json={"definition": late}, timeout=10).status_code == 201
    part.kill()
    assert deployment.engines() == engines
    part.start()
    part.wait_said("is served at")
    assert deployment.engines() == engines
    assert models(part)[1] == {"late": "stored", "tiny-random": "declared"}
    assert part.stop() == 0
    assert deployment.engines() == {}
    for file in (data / "models").iterdir():
        file.unlink()
    ran = once("--data", data)
    assert ran.returncode == 0, "what was added is enough, and is loaded when it is asked"
    assert ran.stdout.strip()


def test_a_second_one_on_the_same_folder_names_the_first(up, once, data):
    part, _ = up
    ran = once("--data", data)
    assert ran.returncode == 5
    assert f"process {part.pid}" in ran.stderr


def test_a_client_that_streams_may_finish_when_it_is_told_to_stop(up):
    part, url = up
    body = {
        "model": "tiny-random",
        "stream": True,
        "max_tokens": 400,
        "ignore_eos": True,
        "messages": [{"role": "user", "content": "hi"}],
    }
    with httpx.stream("POST", f"{url}/chat/completions", json=body, timeout=30) as answer:
        lines = answer.iter_lines()
        next(lines)
        os.kill(part.pid, signal.SIGTERM)
        assert [line for line in lines if line][-1] == "data: [DONE]"
    assert part.wait() == 0
