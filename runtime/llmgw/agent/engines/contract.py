"""What the agent asks of an engine driver, and the values that a driver answers with.

A driver only builds values: ``orders`` calls it, the supervisor runs what it built.
A new engine is one class that fits ``Engine`` and one line in ``registry``.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from llmgw.domain.nodes import Gpu
from llmgw.domain.replicas import LaunchProfile, ShardSpec


@dataclass(frozen=True, slots=True)
class Place:
    """What a driver must know of the machine that its engines run on."""

    listen_addr: str
    """The management address: engines ask for no key, and other ranks reach this one by it."""

    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The agent's own environment, which engine processes inherit for the most part."""

    interface: str = ""
    """The interface that holds ``listen_addr``; empty: not known."""

    ib_root: Path | None = None
    """Where the ports of adapters are read; without it every adapter is used by its first port."""


@dataclass(frozen=True, slots=True)
class Command:
    """One process of a shard; ``env`` is complete, nothing is inherited beside it."""

    name: str
    path: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    wait_for_leader_port: bool = False
    """A rank other than 0 starts it once the leader's port accepts.

    On rank 0 it is the next command that waits: this one opens the port.
    """


@dataclass(frozen=True, slots=True)
class HelpQuestion:
    """How one program of a driver is asked which options it has; ``command`` is a command's name.

    ``more_env`` lets it answer where there is no card.
    """

    command: str
    words: tuple[str, ...]
    more_env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StopStep:
    """One polite way to end: a signal to the process group, and how long to wait for its effect."""

    signal: signal.Signals
    wait_s: float


@dataclass(frozen=True, slots=True)
class StopPlan:
    """How an engine is ended once it has no requests: the steps in order, then SIGKILL."""

    steps: tuple[StopStep, ...]

    @classmethod
    def by_sigterm(cls, wait_s: float) -> StopPlan:
        """For an engine that finishes what it has after one SIGTERM, within ``wait_s``."""
        return cls((StopStep(signal.SIGTERM, wait_s),))


class Engine(Protocol):
    """One engine driver."""

    @property
    def name(self) -> str:
        """The word that a profile names it by."""
        ...

    @property
    def health_path(self) -> str:
        """Path that answers 200 once the engine accepts requests."""
        ...

    @property
    def request_metrics(self) -> tuple[str, ...]:
        """Gauges on ``/metrics`` that together count its requests; all must be there."""
        ...

    @property
    def work_metrics(self) -> tuple[str, ...]:
        """Counters on ``/metrics`` of which one moves when it works; those absent do not count."""
        ...

    @property
    def stop_plan(self) -> StopPlan:
        """How its processes end."""
        ...

    def validate(self, profile: LaunchProfile, gpus: Sequence[Gpu]) -> None:
        """Raise ``Invalid``, with all that is wrong, when the profile cannot run on these cards.

        The cards are the shard's own.
        """
        ...

    def commands(self, spec: ShardSpec) -> tuple[Command, ...]:
        """The processes of one shard in the order of their start; the last one is the engine.

        ``spec.profile.model_path`` is a path on this node by now; a folder may be looked into.
        """
        ...

    def serves_http(self, spec: ShardSpec) -> bool:
        """Whether this rank answers requests; a rank that does not is ready by staying alive."""
        ...


class Checkable(Engine, Protocol):
    """A driver whose options can be compared with what its program says that it takes."""

    def help_questions(self) -> tuple[HelpQuestion, ...]:
        """How each of its programs is asked."""
        ...
