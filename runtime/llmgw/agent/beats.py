"""Decides what of a reading a heartbeat repeats: what the control plane has, it is not told again.

One object a session, begun with what the registration said. A beat counts as said only after it was
sent, so that a failed write loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from llmgw.domain.fetch_status import FetchStatus
from llmgw.domain.nodes import (
    EngineInstall,
    Fabric,
    Gpu,
    HeartbeatFacts,
    LocalWeights,
    NodeFacts,
)


class Beats:
    """What this session's control plane has been told."""

    def __init__(self, registered: NodeFacts) -> None:
        """Begin with what the registration carried."""
        self._weights: tuple[LocalWeights, ...] = registered.weights
        self._engine_versions: Mapping[str, str] = dict(registered.engine_versions)
        self._installs: tuple[EngineInstall, ...] = registered.engine_installs
        self._gpus = _lasting(registered.gpus)
        self._fabrics = _fabrics(registered.fabrics, registered.fabric_problems)
        self._warnings: tuple[str, ...] = registered.warnings
        self._fetches: tuple[FetchStatus, ...] = registered.fetches
        self._problems: frozenset[str] = frozenset()

    def news(self, reading: HeartbeatFacts) -> HeartbeatFacts:
        """The reading without the lists that are known already."""
        engines = reading.engine_versions
        has_fabrics = _fabrics(reading.fabrics, reading.fabric_problems) == self._fabrics
        return replace(
            reading,
            gpus=None if _lasting(reading.gpus) == self._gpus else reading.gpus,
            fabrics=None if has_fabrics else reading.fabrics,
            fabric_problems=() if has_fabrics else reading.fabric_problems,
            warnings=None if reading.warnings == self._warnings else reading.warnings,
            weights=None if reading.weights == self._weights else reading.weights,
            engine_versions=None if engines == self._engine_versions else engines,
            engine_installs=(
                None if reading.engine_installs == self._installs else reading.engine_installs
            ),
            fetches=None if reading.fetches == self._fetches else reading.fetches,
            new_problems=tuple(p for p in reading.new_problems if p not in self._problems),
        )

    def said(self, beat: HeartbeatFacts) -> None:
        """This beat was sent."""
        if beat.weights is not None:
            self._weights = beat.weights
        if beat.engine_versions is not None:
            self._engine_versions = dict(beat.engine_versions)
        if beat.engine_installs is not None:
            self._installs = beat.engine_installs
        if beat.fetches is not None:
            self._fetches = beat.fetches
        if beat.gpus is not None:
            self._gpus = _lasting(beat.gpus)
        if beat.fabrics is not None:
            self._fabrics = _fabrics(beat.fabrics, beat.fabric_problems)
        if beat.warnings is not None:
            self._warnings = beat.warnings
        self._problems |= frozenset(beat.new_problems)


def _lasting(gpus: tuple[Gpu, ...] | None) -> tuple[Gpu, ...] | None:
    """Cards without what moves from beat to beat, which the beat has a place of its own for."""
    if gpus is None:
        return None
    return tuple(
        replace(
            gpu,
            memory_used_mib=None,
            utilization_percent=None,
            temperature_c=None,
            power_watts=None,
        )
        for gpu in gpus
    )


def _fabrics(
    fabrics: tuple[Fabric, ...] | None, problems: tuple[str, ...]
) -> tuple[tuple[Fabric, ...], tuple[str, ...]] | None:
    return None if fabrics is None else (fabrics, problems)
