"""How a simulated engine behaves: what is fixed at its start, and what may change while it runs.

Read by every other module of the simulator; knows nothing of sockets or of JSON bodies' origin.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw.errors import Invalid
from llmgw.kit.addresses import Address


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the engine does with a request; ``POST /sim`` replaces any of these while it runs."""

    ttft_ms: float = 50.0
    """Time from taking a request up to its first token."""

    tpot_ms: float = 10.0
    """Time between two tokens of one request."""

    tokens: int | None = None
    """Tokens after which an answer ends by itself; absent, it goes on to the request's bound."""

    fail_rate: float = 0.0
    """Share of requests, 0 to 1, that are answered ``fail_status``."""

    fail_status: int = 500
    """Status of a request that was chosen to fail."""

    hang: bool = False
    """Nothing is produced any more, neither for running requests nor for new ones."""

    hang_health: bool = False
    """``/health`` is accepted and never answered."""

    cut_after_tokens: int | None = None
    """Tokens after which the connection is closed in the middle of an answer."""

    def __post_init__(self) -> None:
        """Refuse figures that mean nothing."""
        for name in ("ttft_ms", "tpot_ms"):
            if not 0 <= getattr(self, name) < math.inf:
                raise Invalid(f"{name} must be 0 or more, not {getattr(self, name)!r}")
        for name in ("tokens", "cut_after_tokens"):
            bound = getattr(self, name)
            if bound is not None and bound < 1:
                raise Invalid(f"{name} must be 1 or more, not {bound!r}")
        if not 0 <= self.fail_rate <= 1:
            raise Invalid(f"fail_rate must be between 0 and 1, not {self.fail_rate!r}")
        if not 400 <= self.fail_status <= 599:
            raise Invalid(f"fail_status must be between 400 and 599, not {self.fail_status!r}")


_TYPES: Mapping[str, tuple[type, ...]] = {
    "ttft_ms": (int, float),
    "tpot_ms": (int, float),
    "tokens": (int, type(None)),
    "fail_rate": (int, float),
    "fail_status": (int,),
    "hang": (bool,),
    "hang_health": (bool,),
    "cut_after_tokens": (int, type(None)),
}


def changed(behaviour: Behaviour, wanted: object) -> Behaviour:
    """``behaviour`` with the fields of a JSON object replaced; ``Invalid`` says what is wrong."""
    if not isinstance(wanted, dict):
        raise Invalid("the body must be a JSON object")
    for name, value in wanted.items():
        kinds = _TYPES.get(name)
        if kinds is None:
            raise Invalid(f"unknown field {name!r}; known are {', '.join(sorted(_TYPES))}")
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise Invalid(f"{name} may not be {value!r}")
    return dataclasses.replace(behaviour, **wanted)


def shown(behaviour: Behaviour) -> dict[str, object]:
    """All fields, as ``GET /sim`` shows them."""
    return dataclasses.asdict(behaviour)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What is fixed when a simulated engine starts."""

    listen: Address
    models: tuple[str, ...]
    behaviour: Behaviour = Behaviour()
    load_s: float = 0.0
    """Seconds during which ``/health`` answers 503."""

    fail_start: bool = False
    """End with an error where loading would have been done."""

    exit_after: int | None = None
    """Answered requests after which the process ends as if it had crashed."""

    context_length: int = 8192
    parallel: int = 256
    """Requests that run at once; more of them wait in line."""

    kv_tokens: int = 131_072
    """Tokens that the pretended KV cache holds."""

    api_key: str | None = field(default=None, repr=False)
    nnodes: int = 1
    node_rank: int = 0
    dist_init: Address | None = None
    rendezvous_timeout_s: float = 300.0

    def __post_init__(self) -> None:
        """Refuse combinations that cannot work."""
        if not self.models:
            raise Invalid("at least one model name is needed")
        if min(self.parallel, self.context_length, self.kv_tokens, self.nnodes) < 1:
            raise Invalid("parallel, context length, KV tokens and nnodes must be 1 or more")
        if self.load_s < 0 or (self.exit_after is not None and self.exit_after < 1):
            raise Invalid("load time must be 0 or more, and exit-after 1 or more")
        if not 0 <= self.node_rank < self.nnodes:
            raise Invalid(f"node rank {self.node_rank} is not below nnodes {self.nnodes}")
        if self.nnodes > 1 and self.dist_init is None:
            raise Invalid("more than one node needs a dist-init address")
