"""The answers to load balancers and supervisors."""

from __future__ import annotations

from pydantic import BaseModel, Field


class HealthOut(BaseModel):
    """The process lives."""

    status: str = "ok"


class ReadyOut(BaseModel):
    """Whether this process should be sent traffic."""

    is_ready: bool
    obstacles: tuple[str, ...] = Field(description="What is missing, a sentence each.")
