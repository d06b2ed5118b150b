"""The help of every command shows how it is called, in words that it takes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from llmgw.cli.root import root


def commands_below(group: click.Group, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command that runs by itself, hidden ones too; a group that does counts as one."""
    context = click.Context(group)
    hidden = getattr(group, "_table", {})
    for name in {*group.list_commands(context), *hidden}:
        command = group.get_command(context, name)
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield (*above, name)
        if isinstance(command, click.Group):
            yield from commands_below(command, (*above, name))


COMMANDS = sorted(commands_below(root))


def command_of(words):
    command, context = root, click.Context(root)
    for word in words:
        command = command.get_command(context, word)
        context = click.Context(command, info_name=word, parent=context)
    return command


def examples(words):
    shown = CliRunner().invoke(root, [*words, "--help"]).output
    lines = [line.strip() for line in shown.splitlines()[1:]]
    return [line for line in lines if line.startswith(f"llmgw {' '.join(words)}")]


def typed(line, words):
    """The words after the command, without what a shell would take for itself."""
    found = shlex.split(line)[1 + len(words) :]
    for mark in ("|", ">", "&&", "<"):
        if mark in found:
            found = found[: found.index(mark)]
    return found


def test_there_are_many_commands():
    assert len(COMMANDS) > 60
    assert ("ctl", "model", "add") in COMMANDS
    assert ("server",) in COMMANDS
    assert ("worker",) in COMMANDS


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_of_a_command_has_examples_that_it_takes(words, tmp_path, monkeypatch):
    found = examples(words)
    assert found, f"llmgw {' '.join(words)} --help shows no example"
    monkeypatch.chdir(tmp_path)
    for line in found:
        command = command_of(words)
        for parameter in command.params:  # whether a file is there is not the parser's question
            if isinstance(parameter.type, (click.Path, click.File)):
                monkeypatch.setattr(parameter, "type", click.STRING)
        command.make_context(" ".join(words), typed(line, words), resilient_parsing=False)
