"""Types of command-line parameters."""

from __future__ import annotations

import contextlib
import math
import time
from datetime import UTC, datetime

import click

from llmgw.errors import Invalid
from llmgw.kit import units

_UNITS_OF_TIME = ("s", "m", "h", "d")


class Duration(click.ParamType[float]):
    """Seconds, written as ``2s``, ``15m`` or a number."""

    name = "duration"

    def __init__(self, *, at_least_s: float = 0.0) -> None:
        """``at_least_s`` is the shortest that makes sense."""
        self._at_least_s = at_least_s

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds, or a usage error that says what is legal."""
        try:
            given_s = units.seconds(value)
        except Invalid as error:
            self.fail(error.message, param, ctx)
        if given_s < self._at_least_s:
            self.fail(f"{value!r} is too short: give at least {self._at_least_s:g}s", param, ctx)
        return given_s


DURATION = Duration()


class Moment(click.ParamType[float]):
    """A time of day as seconds since 1970, written as ISO 8601 or as that number."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds since 1970, or a usage error that says what is legal."""
        text = str(value)
        with contextlib.suppress(ValueError):
            if math.isfinite(given := float(text)):
                return given
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"{text!r} is no time: write 2026-11-30T09:12:04, with +02:00 for a zone that is "
                "not UTC, or seconds since 1970",
                param,
                ctx,
            )
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


MOMENT = Moment()


class Since(click.ParamType[float]):
    """A time of day as ``Moment`` takes it, or how long ago that is, as ``Duration`` does."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds since 1970, or a usage error that says what is legal."""
        text = str(value)
        if text[-1:] in _UNITS_OF_TIME:
            return time.time() - DURATION.convert(text, param, ctx)
        return MOMENT.convert(text, param, ctx)


SINCE = Since()
