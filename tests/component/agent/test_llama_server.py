"""Our llama-server: what it checks before llama.cpp is asked, and how it ends."""

import contextlib
import json
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from llmgw.agent import llama_server
from llmgw.domain.nodes import Host
from llmgw.errors import Invalid

WORDS = (sys.executable, "-m", "llmgw", "llama-server")


def _run(*flags, **more):
    return subprocess.run(
        [*WORDS, *map(str, flags)], capture_output=True, text=True, timeout=20, check=False, **more
    )


@pytest.mark.parametrize(
    ("arch", "flags", "is_refused"),
    [
        pytest.param("amd64", ("avx",), True, id="old"),
        pytest.param("amd64", ("avx", "avx2"), False, id="new"),
        pytest.param("amd64", (), False, id="unknown"),
        pytest.param("arm64", ("asimd",), False, id="arm"),
    ],
)
def test_a_processor_that_would_stop_the_program_is_refused_with_a_hint(arch, flags, is_refused):
    machine = Host(arch=arch, cpu_flags=flags)
    with pytest.raises(Invalid, match="AVX2") if is_refused else contextlib.nullcontext():
        llama_server.check_processor(machine)


def test_a_missing_model_is_named(tmp_path):
    ended = _run("-m", tmp_path / "none.gguf")
    assert ended.returncode == 4
    assert f"there is no model file {tmp_path / 'none.gguf'}" in ended.stderr


def test_a_file_that_is_no_gguf_is_named_with_what_it_is(tmp_path):
    page = tmp_path / "model.gguf"
    page.write_text("<html>not found</html>")
    ended = _run("-m", page)
    assert ended.returncode == 2
    assert "is not a GGUF file: it begins with b'<htm'" in ended.stderr


def test_a_cut_model_fails_with_the_cause_in_llama_cpps_own_words(tmp_path, tiny_gguf):
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(tiny_gguf.read_bytes()[:200_000])
    ended = _run("-m", cut, "--port", "0")
    assert ended.returncode == 1
    assert "llama.cpp could not serve" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_port_that_is_held_is_named(tiny_gguf):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        ended = _run("-m", tiny_gguf, "--port", port)
    assert ended.returncode == 5
    assert f"cannot listen on 127.0.0.1:{port}: another process holds that port" in ended.stderr


def test_a_flag_that_it_does_not_take_is_named(tiny_gguf):
    ended = _run("-m", tiny_gguf, "--draft-max", "3")
    assert ended.returncode == 2
    assert "--draft-max" in ended.stderr


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        pytest.param(
            "ModuleNotFoundError('no xllamacpp', name='xllamacpp')",
            "pip install 'llmgw[local]'",
            id="absent",
        ),
        pytest.param(
            "ImportError('libgomp.so.1: cannot open shared object file')",
            "apt-get install libgomp1",
            id="library",
        ),
    ],
)
def test_without_its_package_it_says_what_to_install(tmp_path, tiny_gguf, raised, said):
    code = (
        "import sys, importlib.abc\n"
        "class Broken(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == 'xllamacpp': raise {raised}\n"
        "sys.meta_path.insert(0, Broken())\n"
        "from llmgw.cli import root\n"
        f"sys.exit(root.main(['llama-server', '-m', {str(tiny_gguf)!r}]))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False
    )
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_its_flags_reach_llama_cpp(start_llama):
    engine = start_llama("-c", "512", "-np", "2", "--api-key", "k-1")
    headers = {"Authorization": "Bearer k-1"}
    slots = httpx.get(f"{engine.url}/slots", headers=headers).json()
    assert [slot["n_ctx"] for slot in slots] == [256, 256]
    assert httpx.post(f"{engine.url}/v1/completions", json={"prompt": "a"}).status_code == 401


def test_it_ends_at_once_while_a_stream_is_open(start_llama):
    engine = start_llama()
    body = {"prompt": "a", "max_tokens": 4000, "ignore_eos": True, "stream": True}
    url = f"{engine.url}/v1/completions"
    with httpx.stream("POST", url, json=body, timeout=20) as stream:
        assert next(stream.iter_raw()).startswith(b"data: ")
        engine.send(signal.SIGTERM)
        assert engine.wait(timeout_s=2) == 0


def test_it_ends_at_once_while_it_is_starting(start_llama):
    engine = start_llama(is_awaited=False)
    engine.send(signal.SIGTERM)
    assert engine.wait(timeout_s=2) in {0, -signal.SIGTERM}


def test_the_tiny_model_says_the_same_to_the_same_prompt(start_llama):
    engine = start_llama()
    body = {"prompt": "a", "max_tokens": 8, "temperature": 0}
    answers = {
        json.dumps(httpx.post(f"{engine.url}/v1/completions", json=body).json()["choices"])
        for _ in range(2)
    }
    assert len(answers) == 1
