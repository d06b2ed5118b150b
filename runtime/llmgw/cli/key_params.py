"""Types of parameters about keys and limits."""

from __future__ import annotations

import time
from typing import Any

import click

from llmgw.cli.params import DURATION, MOMENT

NONE = "none"
_UNITS_OF_TIME = ("s", "m", "h", "d")


class Limit(click.ParamType[Any]):
    """A whole number, or ``none``, which takes a limit away."""

    name = "number|none"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        """The number, or ``NONE``; whether it is a limit is the domain's to say."""
        text = str(value).replace("_", "")
        if text == NONE:
            return NONE
        try:
            return int(text)
        except ValueError:
            self.fail(f"{value!r} is neither a whole number nor 'none'", param, ctx)


class Names(click.ParamType[Any]):
    """Names with commas between, or ``none`` for no list; an empty one names nothing."""

    name = "a,b|none"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,  # noqa: ARG002 - click passes them
        ctx: click.Context | None,  # noqa: ARG002 - see above
    ) -> frozenset[str] | str:
        """The names, or ``NONE``."""
        if isinstance(value, frozenset) or value == NONE:
            return value
        return frozenset(name.strip() for name in str(value).split(",") if name.strip())


class Until(click.ParamType[float]):
    """A time to come: how long from now, as ``90d``, or a time of day."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds since 1970."""
        text = str(value)
        if text[-1:] in _UNITS_OF_TIME:
            return time.time() + DURATION.convert(text, param, ctx)
        return MOMENT.convert(text, param, ctx)


LIMIT = Limit()
NAMES = Names()
UNTIL = Until()


def changes(
    *,
    rpm: int | str | None,
    tpm: int | str | None,
    budget: int | str | None,
    period: str | None,
    concurrency: int | str | None,
    models: frozenset[str] | str | None,
) -> dict[str, Any]:
    """The fields that were given; ``NONE`` as absent."""
    given = {
        "rpm": rpm,
        "tpm": tpm,
        "budget": budget,
        "period": period,
        "concurrency": concurrency,
        "models": models,
    }
    return {
        name: None if value == NONE else value for name, value in given.items() if value is not None
    }
