"""What should run: models, the ways to run them, and the immutable catalog of both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw.domain import engine_options
from llmgw.domain.pricing import Price
from llmgw.errors import Unknown

ENGINES = ("llamacpp", "sglang", "sim", "vllm")
"""Engines that a profile may name."""

CPU_ENGINES = frozenset({"llamacpp", "sim"})
"""Engines that can serve without a card; only their profiles may leave ``gpu_class`` empty."""

ROUTING_PROFILES = ("chat", "batch", "long-context", "debug")
CAPABILITIES = ("embeddings", "json", "reasoning", "rerank", "tools", "vision")


@dataclass(frozen=True, slots=True)
class Scaling:
    """How many replicas are wanted: ``min`` always; ``min`` 0 with ``max`` >= 1 is on demand."""

    min: int = 0
    max: int = 0
    idle_timeout_s: float = 1800.0

    @property
    def is_off(self) -> bool:
        """Configured and off: nobody's request may start it."""
        return self.max == 0

    @property
    def is_on_demand(self) -> bool:
        """At most one replica, loaded by a request and stopped when idle."""
        return self.min == 0 and self.max > 0


@dataclass(frozen=True, slots=True)
class Profile:
    """One way to run a model on one class of hardware."""

    name: str
    engine: str
    gpu_class: str = ""
    tp: int = 1
    pp: int = 1
    nodes: int = 1
    gpus_per_node: int = 0
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    allow_env_override: bool = False
    priority: int = 0
    weight: float = 1.0
    startup_timeout_s: float = 900.0
    node_selector: Mapping[str, str] = field(default_factory=dict)
    min_memory_gb: float = 0.0
    min_disk_gb: float = 0.0

    @property
    def is_cpu(self) -> bool:
        """Runs in the CPU pool and claims no card."""
        return not self.gpu_class

    @property
    def cards_per_node(self) -> int:
        """Cards that each node gives: none for a CPU profile."""
        return 0 if self.is_cpu else self.gpus_per_node or self.tp

    @property
    def meeting_ports(self) -> int:
        """How many ports in a row the first of several ranks opens for the others."""
        if self.nodes <= 1:
            return 0
        return engine_options.meeting_ports(self.engine, args=self.args, tp=self.tp)

    def fingerprint(self, *, model: Model) -> str:
        """``v1:`` and 16 hex digits over all that the process is started from.

        Priority, weight, timeouts, selectors and minimums are not part of it: they do not change
        the process.
        """
        parts = {
            "args": list(self.args),
            "capabilities": sorted(model.capabilities),
            "context_length": model.context_length,
            "engine": self.engine,
            "env": dict(self.env),
            "gpu_class": self.gpu_class,
            "gpus_per_node": self.gpus_per_node,
            "nodes": self.nodes,
            "pp": self.pp,
            "served_name": model.name,
            "source": model.source,
            "tp": self.tp,
        }
        canonical = json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()
        return "v1:" + hashlib.sha256(canonical).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Model:
    """One catalog entry: what a client asks for and how it may be run."""

    name: str
    source: str
    aliases: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    routing_profile: str = ""
    scaling: Scaling | None = None
    profiles: tuple[Profile, ...] = ()
    context_length: int | None = None
    capabilities: tuple[str, ...] = ()
    description: str | None = None
    price: Price | None = None
    """Its own; absent: as the settings list it."""

    @property
    def is_simulated(self) -> bool:
        """Every way to run it is the sim engine; derived, never configured."""
        return bool(self.profiles) and all(p.engine == "sim" for p in self.profiles)

    @property
    def names(self) -> tuple[str, ...]:
        """The canonical name, then the aliases."""
        return (self.name, *self.aliases)

    def profile(self, name: str) -> Profile | None:
        """The profile of that name, or nothing."""
        return next((p for p in self.profiles if p.name == name), None)


def unknown_model(name: str) -> Unknown:
    """The error for a name that is no model's and no alias."""
    return Unknown(f"the catalog has no model {name!r}; 'llmgw ctl model list' shows all")


@dataclass(frozen=True, slots=True)
class Catalog:
    """All models at one instant; built whole by ``build`` (with every check) and never changed."""

    models: Mapping[str, Model] = field(default_factory=dict)
    canonical: Mapping[str, str] = field(default_factory=dict)
    stored: frozenset[str] = frozenset()
    """Names of the models that were added at run time; the others are declared in the settings."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Stored entries that could not be taken in, by name, and why."""

    def resolve(self, name: str) -> Model | None:
        """The entry that a name or an alias stands for."""
        canonical = self.canonical.get(name)
        return None if canonical is None else self.models[canonical]
