"""Compares the fabrics that the settings declare with the adapters that were found; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llmgw.agent.discovery.infiniband import Hca, HcaPort
from llmgw.config.tending import FabricAdapters
from llmgw.domain.nodes import Fabric


@dataclass(frozen=True, slots=True)
class FabricCheck:
    """One declared fabric: what of it works, and what does not."""

    name: str
    usable: tuple[str, ...]
    rate_gbps: int | None
    problems: tuple[str, ...]
    link_layer: str = ""

    @property
    def is_usable(self) -> bool:
        """At least one adapter works; only such a fabric is offered to the control plane."""
        return bool(self.usable)

    @property
    def fabric(self) -> Fabric:
        """What the control plane is told."""
        return Fabric(
            name=self.name,
            hcas=self.usable,
            rate_gbps=self.rate_gbps,
            link_layer=self.link_layer,
        )

    @property
    def said(self) -> tuple[str, ...]:
        """Its problems, each naming it."""
        return tuple(f"fabric {self.name}: {problem}" for problem in self.problems)


def check(declared: Sequence[FabricAdapters], found: Sequence[Hca]) -> tuple[FabricCheck, ...]:
    """One result a declared fabric, sorted by name.

    An adapter is as fast as its fastest active port, a fabric as its slowest usable adapter. The
    first usable adapter decides whether it is InfiniBand or RoCE; adapters of the other kind are
    none of its own, because the two cannot talk to each other.
    """
    by_name = {hca.name: hca for hca in found}
    return tuple(_checked(fabric, by_name) for fabric in sorted(declared, key=lambda f: f.name))


def warnings(
    declared: Sequence[FabricAdapters], found: Sequence[Hca], *, mgmt_interface: str
) -> tuple[str, ...]:
    """What an operator should know of adapters, though no fabric is unusable for that.

    Engines meet over TCP at the management address, which must not share a fabric's wires; and an
    InfiniBand adapter that works and belongs to no fabric is most likely a forgotten declaration.
    """
    owner = {name: fabric.name for fabric in declared for name in fabric.hcas}
    shared = [
        f"the management interface {mgmt_interface} is adapter {hca.name} of fabric "
        f"{owner[hca.name]}; set mgmt_addr to an address of another network"
        for hca in found
        if mgmt_interface in hca.interfaces and hca.name in owner
    ]
    idle = [hca.name for hca in found if hca.name not in owner and _native(_active(hca))]
    if idle:
        shared.append(f"no fabric has the InfiniBand adapters that work: {', '.join(idle)}")
    return tuple(shared)


def _checked(declared: FabricAdapters, by_name: dict[str, Hca]) -> FabricCheck:
    usable: list[str] = []
    rates: list[int] = []
    problems: list[str] = []
    layer = ""
    for name in declared.hcas:
        hca = by_name.get(name)
        active = _active(hca)
        own = [port.link_layer for port in active if port.link_layer]
        if hca is None or not active:
            problems.append(_problem(name, hca, found=sorted(by_name)))
        elif layer and own and layer not in own:
            problems.append(f"adapter {name} is {own[0]} and those before it are {layer}")
        else:
            layer = layer or next(iter(own), "")
            usable.append(name)
            rates += _fastest(active, declared.rate_gbps)
    return FabricCheck(
        name=declared.name,
        usable=tuple(usable),
        rate_gbps=min(rates, default=None),
        problems=tuple(problems),
        link_layer=layer,
    )


def _active(hca: Hca | None) -> list[HcaPort]:
    return [port for port in hca.ports if port.is_active] if hca else []


def _native(ports: Iterable[HcaPort]) -> bool:
    return any(port.is_native for port in ports)


def _fastest(active: list[HcaPort], declared_gbps: int | None) -> list[int]:
    """The measured rate of an adapter, or the declared one where it tells none."""
    rates = [port.rate_gbps for port in active if port.rate_gbps]
    if rates:
        return [max(rates)]
    return [] if declared_gbps is None else [declared_gbps]


def _problem(name: str, hca: Hca | None, *, found: list[str]) -> str:
    if hca is None:
        return f"adapter {name} was not found; found: {', '.join(found) or 'none'}"
    return f"adapter {name} has no active port: {', '.join(map(_stands, hca.ports)) or 'no ports'}"


def _stands(port: HcaPort) -> str:
    where = f"port {port.num} is {port.state or 'unknown'}/{port.phys_state or 'unknown'}"
    return f"{where} (linked, but no subnet manager answers)" if port.lacks_manager else where
