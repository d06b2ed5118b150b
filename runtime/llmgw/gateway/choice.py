"""What picking and admission read of an endpoint.

``endpoints`` has the one class of it.  A class and no protocol, because every request reads it for
every endpoint: where the gateway is compiled, the fields of a class are read where they lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from llmgw.domain.routes import Endpoint
from llmgw.gateway.breaker import Breaker
from llmgw.gateway.costs import Curve, Standing


class Choice:
    """An endpoint that may be chosen.

    ``incarnation`` is its number in the prefix tree; a ``context_length`` of ``None`` is unknown.
    """

    __slots__ = (
        "breaker",
        "context_length",
        "curves",
        "facts",
        "incarnation",
        "is_ready",
        "priority",
        "salt",
        "standing",
        "weight",
    )

    facts: Endpoint
    is_ready: bool
    weight: float
    priority: int
    salt: int
    incarnation: int
    context_length: int | None
    breaker: Breaker
    standing: Standing
    curves: Mapping[str, Curve]

    def load(self) -> float:
        """Requests that are there or on their way, those of other workers and gateways too."""
        raise NotImplementedError

    def occupied(self) -> float:
        """Requests that are there now, those of other workers and gateways too."""
        raise NotImplementedError


ChoiceT = TypeVar("ChoiceT", bound=Choice)
