"""The options that set limits, shared by what makes a key and what changes limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from llmgw.cli.key_params import LIMIT, NAMES
from llmgw.domain.principals import PERIODS

_OPTIONS = (
    click.option("--rpm", type=LIMIT, help="Requests in a minute."),
    click.option("--tpm", type=LIMIT, help="Tokens in a minute."),
    click.option(
        "--budget",
        type=LIMIT,
        help="Micro-units of money in a period; 0: only models without a price.",
    ),
    click.option("--period", type=click.Choice(PERIODS), help="When the budget begins anew, UTC."),
    click.option("--concurrency", type=LIMIT, help="Requests at the same time."),
    click.option(
        "--models", type=NAMES, help="Only these models; '' for none of them, none for no list."
    ),
)


def limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add them all."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
