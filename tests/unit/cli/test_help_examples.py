"""The help of a command shows how it is called, in words that it takes."""

from __future__ import annotations

import shlex

import click
import pytest
from click.testing import CliRunner

from llmgw.cli.root import root

COMMANDS = [
    ("replay",),
    ("simulate", "agents"),
    *(
        ("ctl", *words.split())
        for words in (
            "status", "nodes", "replicas", "explain-placement", "plan", "what-if drain",
            "what-if lose", "what-if add", "wait", "logs", "engine-check", "tool-check", "cordon",
            "drain", "uncordon", "weights", "refusals", "support-bundle",
        )
    ),
]  # fmt: skip


def examples(words):
    shown = CliRunner().invoke(root, [*words, "--help"]).output
    lines = [line.strip() for line in shown.splitlines()[1:]]
    return [line for line in lines if line.startswith(f"llmgw {' '.join(words)}")]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_of_a_command_has_examples_that_it_takes(words):
    found = examples(words)
    assert found
    for line in found:
        command, context = root, click.Context(root)
        for word in words:
            command = command.get_command(context, word)
            context = click.Context(command)
        for option in (w.partition("=")[0] for w in shlex.split(line) if w.startswith("--")):
            assert any(option in parameter.opts for parameter in command.params), line
