"""``llmgw completion``: the script with which a shell completes commands, options and names."""

from __future__ import annotations

import click
from click import shell_completion

from llmgw.errors import Internal

VARIABLE = "_LLMGW_COMPLETE"
"""What the script sets when it asks this program for what fits."""

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL: bash (4.4 or newer), zsh or fish.

    It completes commands and options, and the names of models and nodes where a control plane
    answers within a second.

    \b
    llmgw completion bash > ~/.local/share/bash-completion/completions/llmgw
    llmgw completion zsh > "${fpath[1]}/_llmgw"
    llmgw completion fish > ~/.config/fish/completions/llmgw.fish
    """  # noqa: D301 - click reads \b
    kind = shell_completion.get_completion_class(shell)
    if kind is None:
        raise Internal(f"this version of click knows no completion for {shell}")
    root = ctx.find_root()
    script = kind(root.command, {}, root.info_name or "llmgw", VARIABLE)
    click.echo(script.source_template % script.source_vars())
