"""What a control plane can be asked about that is not so."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from llmgw.domain.catalog import Model


class Supposed(enum.StrEnum):
    """What is supposed to happen."""

    DRAIN = "drain"
    LOSE = "lose"
    ADD = "add"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A node that drains or is lost, or a model of which there is one more.

    ``name`` is that of the node or of a model of the catalog, ``definition`` a model that would
    come into it.
    """

    supposed: Supposed
    name: str = ""
    definition: Model | None = None
