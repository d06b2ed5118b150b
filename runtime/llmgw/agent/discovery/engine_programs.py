"""Remembers for a minute which engines' programs are here: to find out may mean to start a Python.

Called at every heartbeat; words that start an engine otherwise than before are looked at at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llmgw.agent.discovery import engines_probe
from llmgw.kit.clock import Clock, SystemClock

_FRESH_S = 60.0


class EnginePrograms:
    """The last answer, and to which question."""

    def __init__(self, *, search_path: str | None, clock: Clock | None = None) -> None:
        """``search_path`` is ``PATH``."""
        self._search_path = search_path
        self._clock = clock or SystemClock()
        self._asked: Mapping[str, Sequence[str]] | None = None
        self._found: Mapping[str, str] = {}
        self._asked_at = 0.0

    def versions(self, programs: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
        """Version by engine, as ``engines_probe.probe`` finds them; may block."""
        now = self._clock.monotonic()
        if programs != self._asked or now - self._asked_at >= _FRESH_S:
            self._found = engines_probe.probe(programs, search_path=self._search_path)
            self._asked, self._asked_at = dict(programs), now
        return self._found
