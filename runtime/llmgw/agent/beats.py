"""Decides what of a reading a heartbeat repeats: what the control plane has, it is not told again.

One object a session, begun with what the registration said. A beat counts as said only after it was
sent, so that a failed write loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from llmgw.domain.nodes import EngineInstall, HeartbeatFacts, LocalWeights, NodeFacts


class Beats:
    """What this session's control plane has been told."""

    def __init__(self, registered: NodeFacts) -> None:
        """Begin with what the registration carried."""
        self._weights: tuple[LocalWeights, ...] = registered.weights
        self._engine_versions: Mapping[str, str] = dict(registered.engine_versions)
        self._installs: tuple[EngineInstall, ...] = registered.engine_installs
        self._problems: frozenset[str] = frozenset()

    def news(self, reading: HeartbeatFacts) -> HeartbeatFacts:
        """The reading without the lists that are known already."""
        engines = reading.engine_versions
        return replace(
            reading,
            weights=None if reading.weights == self._weights else reading.weights,
            engine_versions=None if engines == self._engine_versions else engines,
            engine_installs=(
                None if reading.engine_installs == self._installs else reading.engine_installs
            ),
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
        self._problems |= frozenset(beat.new_problems)
