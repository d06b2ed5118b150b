"""Which engines are here and in which version, without running any wrapper of somebody's own."""

from __future__ import annotations

import sys
import time

import pytest

from llmgw.agent.discovery import engines_probe


@pytest.fixture
def environment(tmp_path):
    """An environment's ``bin``; ``package`` puts one into its files."""
    (tmp_path / "env" / "bin").mkdir(parents=True)

    def make(name, *, package="", text="", folder="lib/python3.12/site-packages"):
        program = tmp_path / "env" / "bin" / name
        program.write_text(text or f"#!/bin/sh\ntouch {tmp_path}/was-run\nexit 0\n")
        program.chmod(0o755)
        if package:
            (tmp_path / "env" / folder / f"{package}.dist-info").mkdir(parents=True)
        return str(program)

    return make


def probe(**programs):
    words = {engine: (program,) for engine, program in programs.items()}
    return engines_probe.probe(words, search_path="")


def was_run(tmp_path):
    return (tmp_path / "was-run").exists()


def test_a_program_that_is_not_here_is_left_out():
    assert probe(vllm="/no/vllm", llamacpp="llama-server", sglang="/no/python3") == {}


def test_a_program_that_is_here_counts_and_is_not_run(environment, tmp_path):
    found = probe(llamacpp=environment("llama-server"), vllm=environment("vllm"))
    assert found == {"llamacpp": "unknown", "vllm": "unknown"}
    assert not was_run(tmp_path)


@pytest.mark.parametrize("folder", ["lib/python3.12/site-packages", "lib/python3/dist-packages"])
def test_the_version_of_an_environment_is_read_from_its_files(environment, tmp_path, folder):
    found = probe(
        vllm=environment("vllm", package="vllm-0.33.0", folder=folder),
        sglang=environment("python3", package="sglang-0.5.2.post1", folder=folder),
    )
    assert found == {"sglang": "0.5.2.post1", "vllm": "0.33.0"}
    assert not was_run(tmp_path)


def test_a_link_to_the_program_leads_to_its_environment(environment, tmp_path):
    real = environment("vllm", package="vllm-0.33.0")
    (tmp_path / "vllm").symlink_to(real)
    assert probe(vllm=str(tmp_path / "vllm")) == {"vllm": "0.33.0"}


def test_packages_with_a_longer_name_are_others(environment):
    program = environment("vllm", package="vllm_flash_attn-2.7.2")
    assert probe(vllm=program) == {"vllm": "unknown"}


def test_a_python_without_sglang_does_not_have_it(environment):
    assert probe(sglang=environment("python3", text="#!/bin/sh\nexit 1\n")) == {}
    assert probe(sglang=sys.executable) == {}


def test_a_python_whose_packages_lie_elsewhere_is_asked(environment):
    text = "#!/bin/sh\necho a warning of 3 lines\necho 0.4.1\n"
    assert probe(sglang=environment("python3.12", text=text)) == {"sglang": "0.4.1"}


def test_what_is_not_called_python_is_never_asked(environment, tmp_path):
    assert probe(sglang=environment("run-sglang")) == {}
    assert not was_run(tmp_path)


def test_a_python_that_does_not_answer_is_waited_for_within_a_bound(environment):
    words = {"sglang": (environment("python3", text="#!/bin/sh\nexec sleep 20\n"),)}
    began = time.monotonic()
    assert engines_probe.probe(words, search_path="", ask_timeout_s=0.3) == {}
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.4.1", "0.4.1"),
        ("sglang 0.4.post1", "0.4.post1"),
        ("a warning\n0.5.2.post1,", "0.5.2.post1"),
        ("(0.33.0)", "0.33.0"),
        ("", "unknown"),
        ("no such thing", "unknown"),
        ("version 7", "unknown"),
    ],
)
def test_a_version_is_the_first_dotted_number_of_what_was_written(text, version):
    assert engines_probe.version_in(text) == version
