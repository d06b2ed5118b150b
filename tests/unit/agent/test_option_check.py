"""Drivers are held against what real versions of engines say of their options."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmgw.agent.engines import help_texts, option_check, registry
from llmgw.agent.engines.help_texts import Option
from llmgw.config.settings import AgentSettings
from llmgw.config.tending import EnginesSettings, LlamaCppSettings, SglangSettings, VllmSettings

RECORDED = Path(__file__).parents[2] / "data" / "engine_help"


def driver(name, *, mode="ray"):
    engines = EnginesSettings(
        llamacpp=LlamaCppSettings(bin="/opt/llama-server"),
        sglang=SglangSettings(python="/opt/sglang/bin/python"),
        vllm=VllmSettings(bin="/opt/vllm/bin/vllm", launch_mode=mode),
    )
    made = registry.drivers(AgentSettings(engines=engines), mgmt_addr="10.0.0.1", environ={})
    return registry.checkable(name, made)


def question(driver, command):
    return next(q for q in driver.help_questions() if q.command == command)


def compared(driver, command, text):
    return option_check.compare(driver, question(driver, command), text)


@pytest.mark.parametrize(
    ("text", "engine", "command", "mode", "least"),
    [
        ("vllm-0.33.0", "vllm", "vllm", "ray", 10),
        ("vllm-0.33.0", "vllm", "vllm", "mp", 15),
        ("vllm-0.13.0", "vllm", "vllm", "ray", 10),
        ("vllm-0.13.0", "vllm", "vllm", "mp", 15),
        ("ray-2.60.0", "vllm", "ray", "ray", 8),
        ("sglang-0.5.23", "sglang", "sglang", "ray", 13),
        ("sglang-0.5.2", "sglang", "sglang", "ray", 13),
        ("llama-server-0c1e570", "llamacpp", "llama-server", "ray", 11),
    ],
    ids=str,
)
def test_every_option_of_a_driver_is_one_of_the_engine(text, engine, command, mode, least):
    made = driver(engine, mode=mode)
    found = compared(made, command, (RECORDED / f"{text}.txt").read_text())
    assert (found.failure, found.problems) == ("", ())
    assert found.checked >= least


@pytest.mark.parametrize("recorded", sorted(RECORDED.iterdir()), ids=lambda path: path.stem)
def test_each_recorded_text_names_its_version_and_source(recorded):
    first, second = recorded.read_text().splitlines()[:2]
    assert first.startswith("# ")
    assert recorded.stem.rpartition("-")[2] in first
    assert "--help" in second


VLLM = "vllm serve --help=all\n  --help  this\n"


def test_an_option_that_the_engine_has_lost_is_named():
    text = (RECORDED / "vllm-0.33.0.txt").read_text().replace("--served-model-name", "--named")
    found = compared(driver("vllm"), "vllm", text)
    assert found.problems == ("it has no option --served-model-name",)
    assert not found.is_good


def test_a_value_that_the_engine_no_longer_takes_is_named_with_what_it_takes():
    text = (RECORDED / "vllm-0.33.0.txt").read_text()
    text = text.replace("--runner {auto,draft,generate,pooling}", "--runner {auto,embed}")
    found = compared(driver("vllm"), "vllm", text)
    assert found.problems == ("--runner does not take 'pooling'; legal: auto, embed",)


@pytest.mark.parametrize(
    ("line", "becomes", "words"),
    [
        ("--headless  ", "--headless WHERE  ", "--headless needs a value"),
        ("--nnodes NNODES, -n NNODES", "--nnodes  ", "--nnodes takes no value"),
    ],
    ids=["value-missing", "value-too-much"],
)
def test_an_option_that_takes_a_value_and_did_not_is_named(line, becomes, words):
    text = (RECORDED / "vllm-0.33.0.txt").read_text()
    assert line in text
    found = compared(driver("vllm", mode="mp"), "vllm", text.replace(line, becomes))
    assert len(found.problems) == 1
    assert words in found.problems[0]


@pytest.mark.parametrize(
    "text", ["", "command not found", VLLM.replace("--help ", "--port "), "Traceback: no torch"]
)
def test_a_text_that_does_not_document_its_own_help_decides_nothing(text):
    found = compared(driver("vllm"), "vllm", text)
    assert "cut short" in found.failure
    assert not found.is_good


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (
            "  --nnodes NNODES, -n NNODES",
            {"--nnodes": Option(True), "-n": Option(True)},
        ),
        ("  -n, --nnodes NNODES", {"-n": Option(True), "--nnodes": Option(True)}),
        ("  --headless            Run it.", {"--headless": Option(False)}),
        (
            "  --enable-x, --disable-x",
            {"--enable-x": Option(False), "--disable-x": Option(False)},
        ),
        ("  --runner {auto,draft}", {"--runner": Option(True, ("auto", "draft"))}),
        ("  --backend ['mp', 'ray']", {"--backend": Option(True, ("mp", "ray"))}),
        ("  --log-style [auto|pretty]", {"--log-style": Option(True, ("auto", "pretty"))}),
        ("  --names NAME [NAME ...]", {"--names": Option(True)}),
        ("--jinja, --no-jinja     it", {"--jinja": Option(False), "--no-jinja": Option(False)}),
        ("  --jinja / --no-jinja  it", {"--jinja": Option(False), "--no-jinja": Option(False)}),
        (
            "-c,    --ctx-size N          size",
            {"-c": Option(True), "--ctx-size": Option(True)},
        ),
        ("--poll <0...100>            level", {"--poll": Option(True)}),
        ("                        see --port for more", {}),
        ("- INFO: Request ID, parameters", {}),
    ],
)  # fmt: skip
def test_an_option_is_read_however_its_help_is_set(line, options):
    assert help_texts.parse(f"usage\n{line}\n") == options
