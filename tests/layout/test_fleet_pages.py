"""Pages about the fleet tell the truth: playbooks, variables, quotes and named tests exist."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests.layout.test_docs import PAGES, ROOT, blocks, check_command

PLAYBOOKS = ROOT / "playbooks"
ROLES = [
    *(ROOT / "collections/ansible_collections/llmgw/fleet/roles").iterdir(),
    *(ROOT / "roles").iterdir(),
]
PROMISES = ROOT / "docs" / "contribute" / "promises.md"
PAGES_OF_PROMISES = [
    PROMISES,
    PROMISES.with_name("promises-agent.md"),
    PROMISES.with_name("promises-control.md"),
    PROMISES.with_name("promises-gateway.md"),
    PROMISES.with_name("promises-people.md"),
]

_INLINE = re.compile(r"`([^`\n]+)`")
_EXPRESSION = re.compile(r"\{\{.*?\}\}|^\s*(?:- )?(?:when|that|ok): .*?$", re.DOTALL | re.MULTILINE)
_VARIABLE = re.compile(r"(?<![.'\"\w])[a-z_][a-z0-9_]*")

operators_page = pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "operate").glob("*.md")), ids=lambda page: page.name
)


def commands(page, program):
    """The words after a program, wherever the page has it as code."""
    lines = "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    for line in [*lines, *_INLINE.findall(page.read_text())]:
        words = shlex.split(line, comments=True) if program in line else []
        while words[:1] == ["sudo"]:
            words = words[1:]
        if words and words[0].rpartition("/")[2] == program and words[1:]:
            yield words[1:]


def extra_variables(words):
    """The names that a command line sets with ``-e``."""
    for flag, given in pairwise(words):
        if flag in {"-e", "--extra-vars"} and not given.startswith("@"):
            yield from yaml.safe_load(given) if given[0] == "{" else [given.partition("=")[0]]


@pytest.fixture(scope="module")
def known():
    """What the playbooks read, and the options of all roles."""
    sources = [*PLAYBOOKS.rglob("*.yml"), *(f for role in ROLES for f in role.rglob("*.yml"))]
    read = {
        name
        for source in sources
        for expression in _EXPRESSION.findall(source.read_text())
        for name in _VARIABLE.findall(expression)
    }
    specs = [role / "meta" / "argument_specs.yml" for role in ROLES]
    for spec in filter(Path.exists, specs):
        for entry in yaml.safe_load(spec.read_text())["argument_specs"].values():
            read |= set(entry.get("options", {}))
    return read


@operators_page
def test_commands_within_sentences_exist(page):
    for words in commands(page, "llmgw"):
        check_command([word for word in words if word not in {">", "<", "|"}])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_playbooks_and_their_variables_exist(page, known):
    for words in commands(page, "ansible-playbook"):
        assert (PLAYBOOKS / words[0]).is_file(), f"there is no playbook {words[0]}"
        assert sorted(set(extra_variables(words)) - known) == []


def test_a_variable_that_nobody_reads_is_found(known):
    assert {"name", "provision", "force_identity", "hosts_extra"} <= known
    assert "provison" not in known


def test_commands_are_found_wherever_a_page_has_them():
    page = ROOT / "docs" / "operate" / "add-node.md"
    typed = [words for words in commands(page, "ansible-playbook") if "names" in words[-1]]
    assert [list(extra_variables(words)) for words in typed] == [["names"]]


@pytest.fixture(scope="module")
def said():
    """All that the code says, with texts that go on over lines put together."""
    texts = "\n".join(source.read_text() for source in _speakers())
    joined = re.sub(r"\"\s*\n\s*f?\"", "", texts)
    return re.sub(r"\s+", " ", joined)


@operators_page
def test_refusals_and_logs_are_quoted_as_they_are_said(page, said):
    """The first column of a table is what people look for."""
    rows = re.findall(r"^\| (`[^|]+) \|", page.read_text(), re.MULTILINE)
    quotes = [quote for row in rows for quote in _INLINE.findall(row) if " " in quote]
    parts = [part.strip() for quote in quotes for part in re.split("…|180", quote)]
    assert [part for part in parts if not _is_command(part) and part not in said] == []


def test_an_operator_who_reads_a_refusal_finds_it():
    """Guards the test above against a table that it does not see."""
    page = (ROOT / "docs" / "operate" / "add-node.md").read_text()
    assert len(re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE)) > 25


def _speakers():
    collection = ROOT / "collections" / "ansible_collections" / "llmgw" / "fleet" / "plugins"
    yield from (ROOT / "runtime" / "llmgw").rglob("*.py")
    yield from collection.rglob("*.py")
    yield from PLAYBOOKS.rglob("*.yml")


def _is_command(words):
    return words.startswith(("llmgw ", "ansible-playbook ", "make ", "journalctl "))


@pytest.mark.parametrize("page", PAGES_OF_PROMISES, ids=lambda page: page.stem)
def test_every_promise_names_a_test_that_exists(page):
    named = re.findall(r"`(tests/[\w/.]+\.py)(?:::(\w+))?(?:::(\w+))?`", page.read_text())
    missing = [
        "::".join(filter(None, (path, *names)))
        for path, *names in named
        if not (ROOT / path).is_file() or not _holds((ROOT / path).read_text(), names)
    ]
    assert named
    assert missing == []


def _holds(text, names):
    return all(re.search(rf"(?:def|class) {name}\b", text) for name in names if name)


def test_a_promise_is_held_by_something():
    held = PROMISES.read_text().partition("## Not held by a test yet")[0]
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", held, re.MULTILINE)
    heads = {("promise", "held by"), ("---", "---")}
    assert [
        row for row in rows if row not in heads and not row[1].startswith(("`tests/", "`make "))
    ] == []
