"""How an answer is made from a view of the domain: by the same names, frozen."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class FromView(BaseModel):
    """Base of every answer; ``model_validate(view)`` fills it."""

    model_config = ConfigDict(from_attributes=True, frozen=True)
