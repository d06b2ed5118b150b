"""Ask for models that are loaded on demand, once a model however many requests wait for it.

``arrival`` joins a request that found no engine; the control plane hears of the first wish and of
the last withdrawal.  What comes of it is seen in the route table: an endpoint, or why there is
none.  One a worker.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from llmgw.config.entering import OnDemandSettings
from llmgw.domain.routes import ModelState, RoutedModel
from llmgw.gateway.ports import LoadRequests


class HoldEnd(enum.StrEnum):
    """How a request's wait for a load ended."""

    READY = "ready"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    GONE = "gone"
    """Its client left, or the gateway stopped."""
    TURNED_AWAY = "turned_away"
    """Too many waited already."""


@dataclass(frozen=True, slots=True)
class LoadStats:
    """The figures of one moment."""

    held: Mapping[str, int]
    results: Mapping[HoldEnd, int]


class Loads:
    """See the module."""

    def __init__(self, settings: OnDemandSettings, port: LoadRequests | None) -> None:
        """Without ``port`` nobody loads anything, and nobody waits for it."""
        self.hold_s = settings.hold_s
        self.keeps_alive = settings.hold_keepalive
        self._hold_max = settings.hold_max
        self._port = port
        self._held: dict[str, int] = {}
        self._results = dict.fromkeys(HoldEnd, 0)

    def may_come(self, model: RoutedModel) -> bool:
        """Whether a model that has no engine may get one because it is asked for."""
        if self._port is None:
            return False
        is_loading = model.state is ModelState.LOADING and model.is_on_demand
        return is_loading or model.state is ModelState.ON_DEMAND

    def join(self, model: str) -> bool:
        """Wait for the model, unless too many do; ``leave`` ends it."""
        held = self._held.get(model, 0)
        if held >= self._hold_max or self._port is None:
            self._results[HoldEnd.TURNED_AWAY] += 1
            return False
        self._held[model] = held + 1
        if not held:
            self._port.want(model)
        return True

    def leave(self, model: str, end: HoldEnd) -> None:
        """Wait no longer; the wish of the last one goes with it."""
        self._results[end] += 1
        self._held[model] -= 1
        if not self._held[model]:
            del self._held[model]
            if self._port is not None:
                self._port.withdraw(model)

    def stats(self) -> LoadStats:
        """The figures of this moment."""
        return LoadStats(held=dict(self._held), results=dict(self._results))
