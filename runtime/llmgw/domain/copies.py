"""What is told of a store that is copied into another one, table by table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Held:
    """What a table holds: how many rows, and a digest that does not depend on their order."""

    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class Copied:
    """One table that is the same in both stores."""

    table: str
    rows: int
    was_there: bool
    """An earlier run had copied it."""
