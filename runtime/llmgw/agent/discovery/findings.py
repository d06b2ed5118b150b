"""What one look at a machine found; each value a part that is read, and fails, for itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from llmgw.agent.discovery.fabrics import FabricCheck
from llmgw.agent.discovery.infiniband import Hca
from llmgw.domain.nodes import EngineInstall, Fabric, Gpu, Host, LocalWeights, Storage


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the files of a machine are, and what its kernel calls its kind of processor."""

    root: Path = Path("/")
    architecture: str | None = None
    """``None``: that of this process."""


@dataclass(frozen=True, slots=True)
class Files:
    """What lies in the model folders."""

    storage: tuple[Storage, ...] = ()
    weights: tuple[LocalWeights, ...] = ()


@dataclass(frozen=True, slots=True)
class Cards:
    """The cards, who listed them (``nvml``, ``nvidia-smi`` or ``none``), and what went wrong."""

    gpus: tuple[Gpu, ...] = ()
    source: str = "none"
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is around the cards, and changes when somebody works on the machine."""

    hcas: tuple[Hca, ...] = ()
    fabrics: tuple[FabricCheck, ...] = ()
    host: Host = field(default_factory=Host)
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def fabric_problems(self) -> tuple[str, ...]:
        """What is wrong with declared fabrics; one without a usable adapter is not offered."""
        return tuple(problem for check in self.fabrics for problem in check.said)

    @property
    def offered(self) -> tuple[Fabric, ...]:
        """The fabrics that the control plane is told of."""
        return tuple(check.fabric for check in self.fabrics if check.is_usable)


@dataclass(frozen=True, slots=True)
class Hardware:
    """Everything that is not a file of ours."""

    cards: Cards = Cards()
    around: Surroundings = field(default_factory=Surroundings)
    memory_total_mb: int | None = None

    @property
    def failures(self) -> tuple[str, ...]:
        """One sentence for each part that could not be read."""
        return (*self.cards.failures, *self.around.failures)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What an operator should know, though nothing is kept from the machine for that."""
        return (*self.around.warnings, *self.cards.warnings)


@dataclass(frozen=True, slots=True)
class EnginesHere:
    """Version by engine of what can be started here, and how what was installed stands."""

    versions: Mapping[str, str] = field(default_factory=dict)
    installs: tuple[EngineInstall, ...] = ()
