"""``llmgw ctl plan``: what the next pass would do, or on which cards a model fits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from llmgw.cli import completing, fit_showing, model_configs, plan_showing
from llmgw.cli.asking import Asking, asks
from llmgw.cli.failures import ExitCode
from llmgw.config.tending import WeightsSettings
from llmgw.domain import architectures, fits
from llmgw.domain.fits import Wish
from llmgw.domain.views import NodeView
from llmgw.errors import Conflict, Invalid

_CLASS = re.compile(r"[a-z0-9-]+-(\d+)g")
_CONTEXT = 8192


@dataclass(frozen=True, slots=True)
class _Options:
    """What is asked of a model, beside where it lies."""

    config: Path | None
    engine: str
    context_tokens: int
    requests: int
    gpu_class: str | None
    cards: int | None
    precision: str | None
    hub: str


@click.command()
@click.argument("model", required=False, shell_complete=completing.models)
@click.option(
    "--config",
    type=click.Path(exists=True, path_type=Path),
    help="The model's own config.json, where it is not found.",
)
@click.option("--engine", type=click.Choice(fits.ENGINES), default="vllm", show_default=True)
@click.option(
    "--context",
    "context_tokens",
    type=click.IntRange(min=1),
    default=_CONTEXT,
    show_default=True,
    help="Tokens of each request, prompt and answer.",
)
@click.option(
    "--requests", type=click.IntRange(min=1), default=1, show_default=True, help="So many at once."
)
@click.option("--class", "gpu_class", help="Only this class of cards, such as h100-80g.")
@click.option(
    "--cards",
    type=click.IntRange(1, 64),
    help="Suppose nodes with so many cards of --class; then no control plane is asked.",
)
@click.option("--precision", help="Only this one, such as bf16.")
@click.option("--hub", default=WeightsSettings().hub_url, show_default=True, metavar="URL")
@asks
@click.pass_context
def plan(ctx: click.Context, asking: Asking, /, *, model: str | None, **options: Any) -> None:
    """Show what the next pass would do; or, of a MODEL, on which cards it would fit.

    Without MODEL: the actions of the control plane's next pass, and why what is missing is not
    placed. The same function decides as in the pass; nothing is applied.

    MODEL is a name of the catalog, a repository of the hub, or a folder. Sizes follow from its own
    config.json: weights in each precision that the engine loads, context, and the engine itself.
    LONGEST is the context that one request could have. Ends with 7 when nothing fits.

    \b
    llmgw ctl plan
    llmgw ctl plan llama --requests 16
    llmgw ctl plan Qwen/Qwen2.5-72B-Instruct --context 32768
    llmgw ctl plan ./my-model --class h100-80g --cards 8
    """  # noqa: D301 - click reads \b
    if model is None:
        _next_pass(asking)
    elif not _sized(asking, model, _Options(**options)):
        ctx.exit(ExitCode.CHECK_SAID_NO)


def _next_pass(asking: Asking) -> None:
    answer = asking.client.plan()
    if asking.is_json:
        asking.screen.document(answer.document)
    else:
        plan_showing.plan(asking.screen, answer.value)


def _sized(asking: Asking, model: str, options: _Options) -> bool:
    """Show on which cards a model fits; whether on any."""
    read = architectures.read(_configuration(asking, model, options))
    wish = Wish(options.engine, context_tokens=options.context_tokens, requests=options.requests)
    nodes = _nodes(asking, options)
    classes = _classes(nodes, options)
    found = [
        fit
        for fit in fits.fits(read, wish, classes)
        if options.precision in {None, fit.precision.name}
    ]
    if not found:
        known = {p.name for cards in classes for p in fits.precisions(wish.engine, read, cards)}
        raise Invalid(f"--precision: {options.engine} would load it as {', '.join(sorted(known))}")
    if asking.is_json:
        asking.screen.document(fit_showing.document(read, wish, found, nodes=nodes))
    else:
        fit_showing.table(asking.screen, read, wish, found, nodes=nodes)
    return any(fit.is_fit for fit in found)


def _configuration(asking: Asking, model: str, options: _Options) -> Mapping[str, Any]:
    if options.config is not None:
        return model_configs.of_file(options.config)
    if model_configs.is_source(model):
        return model_configs.of_source(model, hub=options.hub)
    source = asking.client.model(model).value.source
    return model_configs.of_source(source, hub=options.hub)


def _nodes(asking: Asking, options: _Options) -> Sequence[NodeView] | None:
    """The fleet; nothing where cards are supposed."""
    return None if options.cards is not None else asking.client.nodes().value


def _classes(nodes: Sequence[NodeView] | None, options: _Options) -> Sequence[fits.Cards]:
    wanted = options.gpu_class
    if options.cards is not None:
        sized = _CLASS.fullmatch(wanted or "")
        if wanted is None or sized is None:
            raise Invalid("--cards: name their class too, with its size: --class h100-80g")
        size = int(sized.group(1))
        return [fit_showing.supposed(wanted, per_node=options.cards, gibibytes=size)]
    classes = fit_showing.classes(nodes or (), engine=options.engine)
    found = [cards for cards in classes if wanted in {None, cards.gpu_class or "cpu"}]
    if not found:
        what = "a card that tells its memory" if wanted is None else f"cards of class {wanted!r}"
        raise Conflict(f"no node has {what}: suppose some, with --class h100-80g --cards 8")
    return found
