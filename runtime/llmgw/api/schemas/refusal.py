"""Refused and ended streams as the admin API shows them."""

from __future__ import annotations

from pydantic import Field

from llmgw.api.schemas.from_view import FromView


class RefusalOut(FromView):
    """The last time that somebody's stream was refused or ended, and why."""

    node_id: str = Field(description="Who it said to be; empty when it did not come to that.")
    common_name: str = Field(description="Whom its certificate names; empty without one.")
    peer: str
    code: str
    message: str
    ago_s: float
    count: int = Field(description="How often it has happened since the server started.")


class RefusalsOut(FromView):
    """One for each caller, the newest first."""

    refusals: tuple[RefusalOut, ...]
