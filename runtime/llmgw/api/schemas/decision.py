"""What passes did, as the admin API shows it."""

from __future__ import annotations

from pydantic import Field

from llmgw.api.schemas.from_view import FromView


class DecidedActionOut(FromView):
    """One action."""

    kind: str
    subject: str = Field(description="The replica, shard, node or model that it was done to.")
    reason: str


class DecidedPassOut(FromView):
    """One pass that did something."""

    number: int
    at: float = Field(description="Seconds since 1970.")
    actions: tuple[DecidedActionOut, ...]
    refusals: dict[str, str] = Field(description="By model: why it was not placed.")


class DecisionsOut(FromView):
    """Passes, the newest first."""

    passes: tuple[DecidedPassOut, ...]
