"""Who leads as the admin API shows it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from llmgw.api.schemas.from_view import FromView


class LeaderOut(FromView):
    """How the control plane that was asked stands to the lease."""

    standing: Literal["leads", "lapsed", "standby"] = Field(
        description="`lapsed`: it led, its store does not answer, and it changes nothing meanwhile."
    )
    is_leader: bool
    term: int = Field(description="Of its own last lead; 0 where it never led, or leads alone.")
    address: str = Field(description="Admin address of the leader; empty where nobody knows it.")
