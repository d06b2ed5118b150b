"""Replicas and their shards as the admin API shows them."""

from __future__ import annotations

from pydantic import Field

from llmgw.api.schemas.from_view import FromView
from llmgw.domain.replicas import ReplicaState, ShardState


class FetchOut(FromView):
    """How far a download of weights is."""

    source: str
    done_bytes: int
    total_bytes: int | None = Field(description="null when the source gave no length.")
    bytes_per_s: float | None = Field(description="Over the last half minute; null at first.")
    eta_s: float | None = Field(description="Seconds that are left; null when unknown.")


class ShardOut(FromView):
    """One process group of a replica."""

    shard_id: str
    node_id: str
    rank: int
    state: ShardState
    since_s: float = Field(description="Seconds since it came into this state.")
    http_port: int | None
    gpu_indices: tuple[int, ...]
    error: str
    exit_code: int | None = Field(description="null while it runs, and when nobody can know it.")
    last_output: tuple[str, ...]
    fetch: FetchOut | None = Field(description="Present while weights are fetched.")


class ReplicaOut(FromView):
    """One running copy of a model."""

    replica_id: str
    model: str
    profile: str
    engine: str
    state: ReplicaState
    age_s: float
    shards: tuple[ShardOut, ...]
    want_shards: int
    url: str | None = Field(description="Where it answers, once that is known.")
    pool: str
    fabric: str
    ready_s: float | None = Field(description="Seconds since it became ready.")
    ready_in_s: float | None = Field(
        description="Seconds until it will probably serve; null when it does, or when unknown."
    )
    idle_s: float | None = Field(description="Seconds since its last use; null when unknown.")
    inflight: int | None = Field(
        description="Requests that gateways have under way there; null when unknown."
    )
    ejected_s: float | None = Field(
        description="Seconds since gateways left it alone for want of progress; null if in use."
    )
    is_stale_profile: bool = Field(description="Its profile was edited after it was placed.")
    is_assembling: bool = Field(description="Adopted, and not all of its shards have reported.")
    drain_reason: str


class ReplicasOut(FromView):
    """Replicas in the order of their ids."""

    replicas: tuple[ReplicaOut, ...]
