"""What the README tells people to type works as it is written there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
THERE = "http://127.0.0.1:8080"


@pytest.fixture
def url(deployment, tmp_path, tiny_gguf):
    """A running ``llmgw up`` with a small model under the README's name."""
    [name] = set(re.findall(r'model"?[:=] ?"([^"]+)"', README))
    ports = ("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
    words = ("--data", tmp_path / "data", "--model", tiny_gguf, "--name", name)
    part = deployment.run("up", "up", *words, *ports)
    return part.wait_said(rf"^{name} is served at (\S+)").removesuffix("/v1")


def example(language, containing):
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    [found] = [block for block in blocks if containing in block]
    return found


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed; .ci/run does it")
def test_the_curl_line_streams_an_answer(url):
    command = example("sh", "curl").replace(THERE, url)
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("data: {")
    assert done.stdout.rstrip().endswith("data: [DONE]")


def test_the_python_lines_print_an_answer(url):
    """A model of random weights ends its answer at the first token now and then: three tries."""
    program = example("python", "OpenAI").replace(THERE, url)
    said = ""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, done.stderr
        said = done.stdout.strip()
        if said:
            break
    assert said
