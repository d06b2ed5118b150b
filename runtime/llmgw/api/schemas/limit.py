"""Limits as the admin API is told them and shows them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from llmgw.api.schemas.from_view import FromView
from llmgw.domain.limits import MAX_LIMIT
from llmgw.domain.principals import Level, Period, Scope

ModelName = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,200}$")]

_RATE = Field(default=None, ge=1, le=MAX_LIMIT)


class LimitsIn(BaseModel):
    """What is written here is set, null takes a limit away, what is left out stays."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rpm: int | None = _RATE
    tpm: int | None = _RATE
    budget: int | None = Field(default=None, ge=0, le=MAX_LIMIT, description="Micro-units.")
    period: Period = "lifetime"
    concurrency: int | None = _RATE
    models: tuple[ModelName, ...] | None = Field(
        default=None, max_length=1000, description="Null: all models; empty: none."
    )

    def values(self) -> dict[str, Any]:
        """The fields that were written."""
        given = self.model_dump(exclude_unset=True)
        if given.get("models") is not None:
            given["models"] = frozenset(given["models"])
        return given


class LevelOut(FromView):
    """The limits of one place; null does not limit."""

    scope: Scope
    scope_id: str
    rpm: int | None
    tpm: int | None
    budget: int | None
    period: Period
    concurrency: int | None
    models: tuple[str, ...] | None

    @classmethod
    def of(cls, level: Level) -> LevelOut:
        """Its models in the order of their names."""
        names = ("scope", "scope_id", "rpm", "tpm", "budget", "period", "concurrency")
        shown = {name: getattr(level, name) for name in names}
        models = None if level.models is None else tuple(sorted(level.models))
        return cls.model_validate({**shown, "models": models})


class LevelsOut(FromView):
    """Every place that limits something."""

    levels: tuple[LevelOut, ...]
