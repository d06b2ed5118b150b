"""``llmgw ctl model``: the table of commands on the catalog, and on single models of it."""

from __future__ import annotations

from collections.abc import Mapping

import click

from llmgw.cli.lazy import LazyCommand, LazyGroup

COMMANDS: Mapping[str, LazyCommand] = {
    "list": LazyCommand(
        module="llmgw.cli.models_cmd",
        attribute="models",
        help="The catalog, and how much of each model runs.",
    ),
    "show": LazyCommand(
        module="llmgw.cli.model_show_cmd",
        attribute="show",
        help="One model as it was written, and how much of it runs.",
    ),
    "add": LazyCommand(
        module="llmgw.cli.model_change_cmd",
        attribute="add",
        help="Add a model from a file.",
    ),
    "remove": LazyCommand(
        module="llmgw.cli.model_change_cmd",
        attribute="remove",
        help="Remove a model; its replicas drain and stop.",
    ),
    "fallbacks": LazyCommand(
        module="llmgw.cli.model_change_cmd",
        attribute="fallbacks",
        help="Change which models answer in its stead.",
    ),
    "describe": LazyCommand(
        module="llmgw.cli.model_change_cmd",
        attribute="describe",
        help="Change the line for people who choose.",
    ),
    "retry": LazyCommand(
        module="llmgw.cli.model_run_cmd",
        attribute="retry",
        help="Start a model that failed without waiting longer.",
    ),
    "roll": LazyCommand(
        module="llmgw.cli.model_run_cmd",
        attribute="roll",
        help="Have the replicas of a model follow its changed profile.",
    ),
    "export": LazyCommand(
        module="llmgw.cli.model_file_cmd",
        attribute="export",
        help="The whole catalog as YAML.",
    ),
    "diff": LazyCommand(
        module="llmgw.cli.model_file_cmd",
        attribute="diff",
        help="What applying a file would change.",
    ),
    "apply": LazyCommand(
        module="llmgw.cli.model_file_cmd",
        attribute="apply",
        help="Make the stored models those of a file, all or none.",
    ),
}
"""Every command of the group, in the order of the help."""


@click.group(cls=LazyGroup, table=COMMANDS)
def model() -> None:
    """Add, change and remove models while the control plane runs.

    What is declared in the server's settings is changed there alone; what is added here is kept in
    its store.
    """
