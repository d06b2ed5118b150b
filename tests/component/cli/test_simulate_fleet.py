"""``llmgw simulate fleet`` as a person and a program meet it."""

from __future__ import annotations

import json

from tests.fakes import commands

SMALL = ("simulate", "fleet", "--nodes", "20", "--days", "0.2", "--seed", "5")


def test_the_same_seed_tells_the_same_in_another_process(tmp_path):
    told = []
    for number in (1, 2):
        done = commands.run(*SMALL, "--json", environ={"PYTHONHASHSEED": str(number)})
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        told.append({k: v for k, v in document.items() if k not in {"decide_ms", "took_s"}})
    assert told[0] == told[1]
    assert told[0]["broken_checks"] == 0
    assert len(told[0]["spans"]) == 240


def test_people_get_a_page_and_a_picture(tmp_path):
    done = commands.here(*SMALL, "--failures", "harsh", "--out", str(tmp_path / "week"))
    assert done.returncode == 0, done.stderr
    assert "20 nodes with" in done.stdout
    assert "CHECKS      all held" in done.stdout
    assert "UNPLACED" in done.stdout
    assert (tmp_path / "week" / "fleet.svg").read_text().startswith("<svg ")
    assert json.loads((tmp_path / "week" / "fleet.json").read_text())["seed"] == 5


def test_models_of_a_file_are_run_and_a_mistake_in_it_is_told(tmp_path):
    file = tmp_path / "models.yaml"
    file.write_text(
        "models:\n- {name: tiny, source: /models/tiny.gguf, scaling: {min: 2},\n"
        "   profiles: [{name: cpu, engine: llamacpp}]}\n"
    )
    done = commands.here(*SMALL, "--models", str(file), "--json")
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["models"]) == ["tiny"]
    file.write_text("models: [{name: tiny, sorce: x}]\n")
    refused = commands.here(*SMALL, "--models", str(file))
    assert refused.returncode == 2
    assert "sorce" in refused.stderr


def test_a_wrong_word_for_failures_is_told_with_the_legal_ones():
    done = commands.here("simulate", "fleet", "--failures", "los=3d")
    assert done.returncode == 2
    assert "none, usual, harsh nor one of loss=30d" in done.stderr
