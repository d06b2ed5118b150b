"""Types of command-line parameters."""

from __future__ import annotations

import click

from llmgw.errors import Invalid
from llmgw.kit import units


class Duration(click.ParamType[float]):
    """Seconds, written as ``2s``, ``15m`` or a number."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds, or a usage error that says what is legal."""
        try:
            return units.seconds(value)
        except Invalid as error:
            self.fail(error.message, param, ctx)


DURATION = Duration()
