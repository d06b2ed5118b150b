"""What ways to run models were measured to carry, as the admin API shows and takes it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from llmgw.api.schemas.from_view import FromView


class SloIn(BaseModel):
    """The promises that had to be kept."""

    model_config = ConfigDict(extra="forbid")

    ttft_p95_s: float = Field(gt=0, description="Most of the time to the first token.")
    tpot_p95_s: float = Field(gt=0, description="Most of the time per further token.")
    error_share: float = Field(default=0.0, ge=0, le=1, description="Share that may fail.")


class ResultIn(BaseModel):
    """The best level that kept them; null was not measured."""

    model_config = ConfigDict(extra="forbid")

    concurrency: int = Field(ge=1, description="Requests at once.")
    tokens_per_s: float = Field(ge=0)
    requests_per_s: float = Field(ge=0)
    waiting: float | None = Field(default=None, description="Requests that the engine held back.")
    kv: float | None = Field(default=None, description="Share of its KV cache in use.")
    shared_prefix_tokens: int = Field(
        default=0, ge=0, description="How much of all prompts was the same."
    )


class MeasuredIn(BaseModel):
    """A measurement of one replica, which stands for its model and profile."""

    model_config = ConfigDict(extra="forbid")

    replica_id: str
    result: ResultIn
    slo: SloIn


class CapacityOut(FromView):
    """What a profile of a model was last measured to carry."""

    model: str
    profile: str
    result: dict[str, object]
    slo: dict[str, object]
    measured_at: float = Field(description="Seconds since 1970.")


class CapacitiesOut(FromView):
    """Measurements in the order of models and profiles."""

    capacities: tuple[CapacityOut, ...]
