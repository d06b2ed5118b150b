"""What came of checking an engine on a node, as the admin API shows it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from llmgw.api.schemas.from_view import FromView


class EngineCheckIn(BaseModel):
    """Which engine to check."""

    model_config = ConfigDict(extra="forbid")

    engine: str


class ProgramOut(FromView):
    """One program of the engine."""

    subject: str = Field(description="How it was asked for its options.")
    is_done: bool = Field(description="It takes every option that llmgw gives it.")
    detail: str = Field(description="How many options it was asked for, or what is wrong.")


class EngineCheckOut(BaseModel):
    """Every program of the engine."""

    node_id: str
    engine: str
    is_good: bool
    programs: tuple[ProgramOut, ...]
