"""The one shape of every error of the admin API."""

from __future__ import annotations

from pydantic import BaseModel, Field

from llmgw.errors import Kind


class DetailOut(BaseModel):
    """One mistake in what was sent."""

    path: str
    problem: str


class ProblemOut(BaseModel):
    """What failed, on which thing, what to do."""

    code: str = Field(description="Stable; for programs.")
    kind: Kind
    message: str
    details: tuple[DetailOut, ...] = ()
    leader: str = Field(
        default="", description="Admin address of the control plane to ask, of a standby."
    )
    request_id: str


class ErrorOut(BaseModel):
    """The body of every answer that is not a success."""

    error: ProblemOut
