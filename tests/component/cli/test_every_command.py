"""Every command of ``ctl`` writes a page for people and one document for programs."""

from __future__ import annotations

import dataclasses
import json
import re

import click
import pytest

from llmgw.api.application import create_app
from llmgw.cli import ctl_cmd
from tests.fakes import commands
from tests.fakes.fleet import OFF, SMALL, FakeFleet, FakeReadiness, control_of
from tests.fakes.listening import listening

CALLS = {
    "audit": "",
    "ban": "gpu01",
    "bench": "small-5e6f7a8b",
    "brake": "",
    "capacity": "",
    "cordon": "gpu01",
    "decisions": "",
    "drain": "gpu01",
    "engine-check": "vllm",
    "engines": "",
    "explain-placement": "small",
    "fetch": "small --node gpu01",
    "forget": "gpu01",
    "logs": "gpu01",
    "model add": "-f {new}",
    "model apply": "-f {new}",
    "model describe": "stored words",
    "model diff": "-f {new}",
    "model export": "",
    "model fallbacks": "stored",
    "model list": "",
    "model remove": "stored",
    "model retry": "big",
    "model roll": "big",
    "model show": "stored",
    "models": "",
    "nodes": "",
    "plan": "",
    "refusals": "",
    "replicas": "",
    "scale": "stored --min 1",
    "status": "",
    "unban": "gpu01",
    "uncordon": "gpu01",
    "usage": "",
    "wait": "big",
    "weights": "",
    "what-if add": "big",
    "what-if drain": "gpu01",
    "what-if lose": "gpu01",
}
"""How each is called on the fleet of the fakes."""

ELSEWHERE = {"support-bundle", "tool-check"}
"""A file, and an engine that is talked to: each has tests of its own."""


def leaves(group, above=""):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, f"{above}{name} ")
        else:
            yield f"{above}{name}"


def test_every_command_that_asks_is_called_here():
    asking = {name for name in leaves(ctl_cmd.ctl) if not name.startswith("cert ")}
    assert asking == CALLS.keys() | ELSEWHERE


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name in ("new", "stored"):
        (folder / f"{name}.yaml").write_text(
            f"name: {name}\nsource: /models/{name}.gguf\nscaling: {{min: 0, max: 1}}\n"
            "profiles: [{name: cpu, engine: llamacpp}]\n"
        )
    return folder


@pytest.fixture(scope="module")
def admin():
    fleet = FakeFleet()
    remote = dataclasses.replace(SMALL, source="https://models.example/small.gguf")
    fleet.model_views = [*fleet.model_views[:-1], remote, dataclasses.replace(OFF, name="stored")]
    app = create_app(readiness=FakeReadiness(), control=control_of(fleet))
    with listening(app) as url:
        yield url


@pytest.fixture(autouse=True)
def stored(admin, models):
    """What an earlier test did to it is undone."""
    file = str(models / "stored.yaml")
    added = commands.here("ctl", "--admin", admin, "model", "add", "-f", file, "--replace")
    assert added.returncode == 0, added.stderr


def called(admin, name, models, *more):
    words = [w.format(new=models / "new.yaml") for w in CALLS[name].split()]
    return commands.here("ctl", "--admin", admin, *name.split(), *words, *more)


@pytest.mark.parametrize("name", CALLS)
def test_people_get_a_page_and_programs_one_document(admin, name, models):
    shown = called(admin, name, models)
    assert shown.returncode in {0, 5, 7}, shown.stderr
    told = called(admin, name, models, "--json")
    assert told.returncode == shown.returncode or name.startswith("model "), told.stderr
    if shown.returncode == 5:
        assert re.search(r"'llmgw [a-z -]+", shown.stderr), "what to do next is not said"
        return
    assert shown.stdout.strip()
    assert not shown.stdout.lstrip().startswith("{")
    assert "None" not in shown.stdout
    if told.returncode in {0, 7}:
        assert isinstance(json.loads(told.stdout), dict)


NOBODY = {
    name: re.sub(r"\b(gpu01|small-5e6f7a8b|small|stored|big)\b", "nobody", words)
    for name, words in CALLS.items()
    if re.search(r"gpu01|small|stored|big", words) and not name.startswith("what-if")
}


@pytest.mark.parametrize("name", NOBODY)
def test_who_names_nothing_that_there_is_hears_where_the_names_are(admin, name):
    done = commands.here("ctl", "--admin", admin, *name.split(), *NOBODY[name].split())
    assert done.returncode == 4, done.stderr
    assert done.stdout == ""
    assert "nobody" in done.stderr
    assert re.search(r"'llmgw ctl [a-z ]+'", done.stderr), done.stderr
