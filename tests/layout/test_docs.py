"""Pages tell the truth: links lead somewhere, examples load, commands and options exist."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from llmgw.cli.root import root
from llmgw.config.loading import load_agent, load_gateway, load_server
from llmgw.domain import definitions

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())


def blocks(page, language):
    return [body for found, body in _FENCE.findall(page.read_text()) if found == language]


@every_page
def test_links_lead_to_files(page):
    broken = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert broken == []


@every_page
def test_examples_of_settings_load(page, tmp_path):
    for text in blocks(page, "yaml"):
        if text.startswith("# model.yaml"):
            assert definitions.load([yaml.safe_load(text)])
            continue
        file = tmp_path / "settings.yaml"
        file.write_text(text)
        head = text.partition("\n")[0]
        load = {"# agent.yaml": load_agent, "# gateway.yaml": load_gateway}.get(head, load_server)
        assert load(file, environ={})


@every_page
def test_commands_and_options_in_examples_exist(page):
    for line in "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines():
        program, *words = shlex.split(line, comments=True) or [""]
        if program.endswith("llmgw"):
            check_command(words)


def check_command(words):
    """Walk groups down to a command, then see that it takes each option."""
    command = root
    context = click.Context(root, info_name="llmgw")
    while isinstance(command, click.Group) and words:
        name, *words = words
        found = command.get_command(context, name)
        assert found is not None, f"llmgw has no command {name}"
        command, context = found, click.Context(found, parent=context, info_name=name)
        if not command.params or not words:
            continue
        if isinstance(command, click.Group) and words[0] in command.list_commands(context):
            continue
        break
    options = {option for parameter in command.params for option in parameter.opts}
    unknown = [w for w in words if w.startswith("--") and w.partition("=")[0] not in options]
    assert unknown == [], f"{command.name} takes no {unknown}"


def test_every_page_of_docs_is_reached_from_the_readme():
    reached, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        todo += [(page.parent / link).resolve() for link in _LINK.findall(page.read_text())]
    assert {p.relative_to(ROOT).as_posix() for p in set(PAGES) - reached} == set()


def test_every_key_of_a_model_is_on_its_page():
    page = (ROOT / "docs" / "reference" / "models.md").read_text()
    keys = (*definitions.MODEL_KEYS, *definitions.SCALING_KEYS, *definitions.PROFILE_KEYS)
    assert [key for key in keys if f"`{key}`" not in page] == []


def test_pages_of_understanding_are_short():
    long = {
        page.name: count
        for page in (ROOT / "docs" / "understand").glob("*.md")
        if (count := len(page.read_text().splitlines())) > 200
    }
    assert long == {}


def test_what_the_makefile_names_is_what_the_page_names():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())
    page = (ROOT / "docs" / "contribute" / "development.md").read_text()
    assert set(re.findall(r"`make (\w+)`", page)) <= targets


def test_ci_is_a_script_that_can_be_run():
    done = subprocess.run(["bash", "-n", ROOT / ".ci" / "run"], check=False)
    assert done.returncode == 0
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


def test_every_command_is_on_the_page_of_commands():
    """A group of a group may stand for the commands in it."""
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    told = {
        tuple(words.split()[1:])
        for words in re.findall(r"^\| `(llmgw [a-z -]+)", page, re.MULTILINE)
    }
    untold = [path for path in paths(root) if path not in told and path[:2] not in told]
    assert untold == []


def paths(group, above=()):
    """The words after ``llmgw`` of every command that its help shows."""
    context = click.Context(group, info_name="llmgw")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command.hidden:
            continue
        if isinstance(command, click.Group):
            yield from paths(command, (*above, name))
        else:
            yield (*above, name)
