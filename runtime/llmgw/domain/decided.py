"""What passes did, as it is read back from where they are written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DecidedAction:
    """One action: its kind, the thing that it was done to, and why."""

    kind: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class DecidedPass:
    """One pass that did something; ``at`` is the time of day, in seconds since 1970."""

    number: int
    at: float
    actions: tuple[DecidedAction, ...]
    refusals: Mapping[str, str] = field(default_factory=dict)
    """By model, why it was not placed."""
