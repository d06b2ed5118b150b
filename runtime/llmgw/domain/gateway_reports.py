"""What a gateway on another host tells its control plane, and what it hears back.

Clocks of two hosts have nothing in common, so every time is an age.  What nobody knows is absent,
which is not zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.domain.routes import RoutedModel


@dataclass(frozen=True, slots=True)
class EndpointReport:
    """One endpoint as all workers of a gateway see it; ``traffic.EndpointTraffic`` in ages."""

    endpoint_id: str
    inflight: int = 0
    used_ago_s: float | None = None
    ejected_ago_s: float | None = None
    is_stalled: bool = False
    answered_ago_s: float | None = None


@dataclass(frozen=True, slots=True)
class GatewayReport:
    """All that a gateway sees at one moment; the next report replaces it whole.

    ``instance`` is another one after each start.  ``term`` and ``number`` are those of the table
    with which all its workers work; ``number`` is absent while they differ.
    """

    name: str
    instance: str
    term: int = 0
    number: int | None = None
    workers: int = 0
    endpoints: tuple[EndpointReport, ...] = ()
    asked: frozenset[str] = frozenset()
    is_leaving: bool = False
    """It has ended its requests and will not come again as this instance."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """When an agent last looked at an engine, and when it last saw it at work."""

    endpoint_id: str
    looked_ago_s: float
    worked_ago_s: float | None = None


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    """How the models stand that requests wait for, and what agents saw since the last answer."""

    demand: tuple[RoutedModel, ...] = ()
    evidence: tuple[Evidence, ...] = ()
