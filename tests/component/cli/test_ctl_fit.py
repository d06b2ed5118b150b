"""``llmgw ctl plan MODEL``: on which cards a model fits, as a person and a program ask."""

from __future__ import annotations

import dataclasses
import json

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from llmgw.api.application import create_app
from llmgw.domain.nodes import Fabric
from llmgw.domain.views import GpuUse, GpuView, NodeView
from tests.fakes import commands
from tests.fakes.fleet import FakeFleet, FakeReadiness, control_of
from tests.fakes.listening import listening
from tests.unit.domain.test_fits import DEEPSEEK_V3, LLAMA_8B, LLAMA_70B


def node(number, *, cards=8, used=0, gpu_class="h100-80g", mib=81559, **others):
    gpus = tuple(
        GpuView(i, gpu_class, GpuUse.USED if i < used else GpuUse.FREE, memory_total_mib=mib)
        for i in range(cards)
    )
    plain = {"engine_versions": {"vllm": "0.11", "llamacpp": "b1"}, "memory_available_mb": 65536}
    return NodeView(f"n{number}", "ready", 1.0, gpus=gpus, **{**plain, **others})


ONE_NODE = (node(1),)


class Fleet(FakeFleet):
    def __init__(self, *nodes):
        super().__init__()
        self._own = nodes

    def nodes(self):
        return self._own


@pytest.fixture
def ask():
    """Asks a fleet of these nodes."""

    def asked(*words, nodes=ONE_NODE):
        control = control_of(Fleet(*nodes))
        with listening(create_app(readiness=FakeReadiness(), control=control)) as url:
            return commands.here("ctl", "plan", *words, environ={"LLMGW_CTL_URL": url})

    return asked


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_70B))
    return str(tmp_path)


@pytest.fixture
def hub():
    app = FastAPI()

    @app.get("/{owner}/{name}/resolve/main/config.json")
    def config(owner: str, name: str) -> JSONResponse:
        status = {"gated": 403, "gone": 404, "broken": 500}.get(name, 200)
        return JSONResponse(LLAMA_8B, status_code=status)

    with listening(app) as url:
        yield url


def cells(done, name):
    (line,) = (one for one in done.stdout.splitlines() if one.split()[1:2] == [name])
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_seventy_billion_in_16_bits_are_said_to_fit_two_cards(ask, folder):
    done = ask(folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "70.6 billion weights" in done.stdout
    assert cells(done, "bf16")[:5] == ["h100-80g", "bf16", "yes", "2 (tp 2, pp 1)", "131.4 GiB"]
    assert cells(done, "int4")[-1] == "needs AWQ or GPTQ weights"
    assert "profile: {name: h100-80g, engine: vllm, gpu_class: h100-80g, tp: 1}" in done.stdout


def test_what_does_not_fit_ends_with_7_and_says_what_is_missing(ask, folder):
    done = ask(folder, "--precision", "bf16", nodes=[node(1, cards=1)])
    assert done.returncode == 7
    assert "GiB a card are missing" in cells(done, "bf16")[-1]


def test_room_is_what_is_free_where_the_engine_is(ask, folder):
    nodes = [
        node(1),
        node(2, used=7),
        dataclasses.replace(node(3), state="cordoned"),
        dataclasses.replace(node(4), engine_versions={"llamacpp": "b1"}),
    ]
    told = json.loads(ask(folder, "--json", "--precision", "bf16", nodes=nodes).stdout)
    (fit,) = told["fits"]
    assert (fit["tp"], fit["nodes_with_room"]) == (2, 1)


def test_a_model_larger_than_a_node_is_split_over_those_of_one_fabric(ask, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(DEEPSEEK_V3))
    ib = (Fabric(name="ib-a", hcas=("mlx5_0",)),)
    done = ask(str(tmp_path), nodes=[node(1, fabrics=ib), node(2, fabrics=ib)])
    assert done.returncode == 0, done.stdout
    assert cells(done, "fp8")[3] == "16 (tp 8, pp 2) over 2 nodes"
    assert "pp: 2, nodes: 2, gpus_per_node: 8}" in done.stdout
    assert ask(str(tmp_path), nodes=[node(1, fabrics=ib), node(2)]).returncode == 7


def test_cards_that_nobody_has_are_supposed_and_no_control_plane_is_asked(folder):
    done = commands.here(
        "ctl", "plan", folder, "--class", "l40s-48g", "--cards", "4", "--json",
        environ={"LLMGW_CTL_URL": "http://127.0.0.1:1"},
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert next((f["precision"], f["tp"]) for f in told["fits"] if f["is_fit"]) == ("bf16", 4)
    assert told["fits"][0]["nodes_with_room"] is None


def test_llama_cpp_runs_on_processors_too(ask, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B))
    done = ask(str(tmp_path), "--engine", "llamacpp", nodes=[node(1, cards=0)])
    assert cells(done, "q8_0")[:4] == ["cpu", "q8_0", "yes", "none"]


def test_a_repository_of_the_hub_is_read(ask, hub):
    done = ask("meta/llama-8b", "--hub", hub)
    assert "8.0 billion weights" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["meta/gated"], 5, "alone who have access"),
        (["meta/gone"], 4, "the hub has no config.json of meta/gone"),
        (["meta/broken"], 1, "answers 500"),
        (["hf:org/repo/file.gguf"], 2, "is a GGUF file"),
        (["https://host/model"], 2, "no repository of the hub"),
        (["nosuch"], 4, "no model 'nosuch'"),
    ],
    ids=["gated", "gone", "broken", "gguf", "address", "not in the catalog"],
)
def test_a_model_that_cannot_be_read_says_what_to_do(ask, hub, words, code, says):
    done = ask(*words, "--hub", hub)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "--config FILE" in done.stderr or code == 4


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--class", "b200-180g"], 5, "no node has cards of class 'b200-180g'"),
        (["--cards", "4"], 2, "--class h100-80g"),
        (["--precision", "fp3"], 2, "bf16, fp8, int4"),
    ],
    ids=["class", "cards", "precision"],
)
def test_a_question_that_makes_no_sense_says_what_does(ask, folder, words, code, says):
    done = ask(folder, *words)
    assert done.returncode == code
    assert says in done.stderr


def test_a_fleet_without_cards_says_to_suppose_some(ask, folder):
    done = ask(folder, nodes=[node(1, cards=0)])
    assert done.returncode == 5
    assert "--class h100-80g --cards 8" in done.stderr
