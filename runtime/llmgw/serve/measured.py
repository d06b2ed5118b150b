"""What ways to run models were measured to carry, in the store; fits ``api.ports.Measurements``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from llmgw.domain.stored import Capacity
from llmgw.errors import NoStore
from llmgw.kit.clock import Clock


class Measures(Protocol):
    """What the store keeps; ``store.capacity_repo.CapacityRepo`` fits."""

    async def all(self) -> Sequence[Capacity]:
        """Every measurement."""
        ...

    async def put(self, measured: Capacity) -> None:
        """Keep one in the place of the last one."""
        ...


class Measured:
    """The measurements of one control plane."""

    def __init__(self, measures: Measures | None, *, clock: Clock) -> None:
        """Without ``measures`` nothing can be kept."""
        self._measures = measures
        self._clock = clock

    async def measurements(self) -> Sequence[Capacity]:
        """See ``api.ports.Measurements``."""
        return await self._kept().all()

    async def measure(
        self, *, model: str, profile: str, result: Mapping[str, object], slo: Mapping[str, object]
    ) -> Capacity:
        """See ``api.ports.Measurements``."""
        kept = self._kept()
        measured = Capacity(model, profile, result, slo, measured_at=self._clock.wall())
        await kept.put(measured)
        return measured

    def _kept(self) -> Measures:
        if self._measures is None:
            raise NoStore("this server has no store, so measurements are not kept; set auth.store")
        return self._measures
