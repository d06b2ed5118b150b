"""Compares the fabrics that the settings declare with the adapters that were found; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmgw.agent.discovery.infiniband import Hca, HcaPort
from llmgw.config.settings import FabricAdapters
from llmgw.domain.nodes import Fabric


@dataclass(frozen=True, slots=True)
class FabricCheck:
    """One declared fabric: what of it works, and what does not."""

    name: str
    usable: tuple[str, ...]
    rate_gbps: int | None
    problems: tuple[str, ...]

    @property
    def is_usable(self) -> bool:
        """At least one adapter works; only such a fabric is offered to the control plane."""
        return bool(self.usable)

    @property
    def fabric(self) -> Fabric:
        """What the control plane is told."""
        return Fabric(name=self.name, hcas=self.usable, rate_gbps=self.rate_gbps)


def check(declared: Sequence[FabricAdapters], found: Sequence[Hca]) -> tuple[FabricCheck, ...]:
    """One result a declared fabric, sorted by name.

    An adapter is as fast as its fastest active port, a fabric as its slowest usable adapter.
    """
    by_name = {hca.name: hca for hca in found}
    return tuple(_checked(fabric, by_name) for fabric in sorted(declared, key=lambda f: f.name))


def _checked(declared: FabricAdapters, by_name: dict[str, Hca]) -> FabricCheck:
    usable: list[str] = []
    rates: list[int] = []
    problems: list[str] = []
    for name in declared.hcas:
        hca = by_name.get(name)
        active = [port for port in hca.ports if port.is_active] if hca else []
        if not active:
            problems.append(_problem(name, hca, found=sorted(by_name)))
            continue
        usable.append(name)
        rates += _fastest(active, declared.rate_gbps)
    return FabricCheck(
        name=declared.name,
        usable=tuple(usable),
        rate_gbps=min(rates, default=None),
        problems=tuple(problems),
    )


def _fastest(active: list[HcaPort], declared_gbps: int | None) -> list[int]:
    """The measured rate of an adapter, or the declared one where it tells none."""
    rates = [port.rate_gbps for port in active if port.rate_gbps]
    if rates:
        return [max(rates)]
    return [] if declared_gbps is None else [declared_gbps]


def _problem(name: str, hca: Hca | None, *, found: list[str]) -> str:
    if hca is None:
        return f"adapter {name} was not found; found: {', '.join(found) or 'none'}"
    ports = ", ".join(
        f"port {port.num} is {port.state or 'unknown'}/{port.phys_state or 'unknown'}"
        for port in hca.ports
    )
    return f"adapter {name} has no active port: {ports or 'no ports'}"
