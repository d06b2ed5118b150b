"""``llmgw ctl what-if``: what would come of it if a node went, or a model came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import yaml

from llmgw.cli import completing, plan_showing
from llmgw.cli.asking import Asking, asks
from llmgw.cli.failures import ExitCode
from llmgw.domain.questions import Supposed
from llmgw.errors import Invalid

_FILES = (".yaml", ".yml", ".json")


@click.group("what-if")
def what_if() -> None:
    """Ask what would come of it if a node went, or a model came; nothing is applied.

    The control plane looks ahead with the function that decides its passes. Ends with 7 when a
    model would have fewer replicas than are wanted.
    """


@what_if.command()
@click.argument("node", shell_complete=completing.nodes)
@asks
@click.pass_context
def drain(ctx: click.Context, asking: Asking, *, node: str) -> None:
    """If NODE were drained: what moves where, and what has no other place.

    \b
    llmgw ctl what-if drain gpu01
    """  # noqa: D301 - click reads \b
    _ask(ctx, asking, Supposed.DRAIN, name=node)


@what_if.command()
@click.argument("node", shell_complete=completing.nodes)
@asks
@click.pass_context
def lose(ctx: click.Context, asking: Asking, *, node: str) -> None:
    """If NODE fell silent for good: what is placed anew, and what is missing then.

    \b
    llmgw ctl what-if lose gpu01
    """  # noqa: D301 - click reads \b
    _ask(ctx, asking, Supposed.LOSE, name=node)


@what_if.command()
@click.argument("model", metavar="MODEL|FILE", shell_complete=completing.models)
@asks
@click.pass_context
def add(ctx: click.Context, asking: Asking, *, model: str) -> None:
    """If one more replica of MODEL were wanted, or the model in FILE were in the catalog.

    FILE is YAML or JSON with one model, written as in the server's settings.

    \b
    llmgw ctl what-if add llama
    llmgw ctl what-if add new-model.yaml
    """  # noqa: D301 - click reads \b
    if model.endswith(_FILES) or Path(model).is_file():
        _ask(ctx, asking, Supposed.ADD, definition=_definition(Path(model)))
    else:
        _ask(ctx, asking, Supposed.ADD, name=model)


def _ask(
    ctx: click.Context,
    asking: Asking,
    supposed: Supposed,
    *,
    name: str = "",
    definition: Any = None,
) -> None:
    answer = asking.client.what_if(supposed, name=name, definition=definition)
    if asking.is_json:
        asking.screen.document(answer.document)
    else:
        plan_showing.outlook(asking.screen, answer.value)
    if not answer.value.is_enough:
        ctx.exit(ExitCode.CHECK_SAID_NO)


def _definition(file: Path) -> dict[str, Any]:
    try:
        written = yaml.safe_load(file.read_text())
    except OSError as error:
        raise Invalid(f"cannot read {file}: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise Invalid(f"{file} is no YAML: {error}") from error
    found = written.get("models", written) if isinstance(written, dict) else written
    one = found[0] if isinstance(found, list) and len(found) == 1 else found
    if not isinstance(one, dict):
        raise Invalid(f"{file} must hold one model: a mapping with name, source and profiles")
    return one
