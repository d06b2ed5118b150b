"""What the reconciler needs from the rooms around it; ``serve`` joins them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from llmgw.domain.actions import Decision
from llmgw.domain.catalog import Catalog
from llmgw.domain.replicas import ShardSpec
from llmgw.domain.snapshots import Snapshot
from llmgw.domain.status_views import GatewayView
from llmgw.domain.traffic import Traffic
from llmgw.errors import LlmgwError
from llmgw.kit.clock import Clock


class Dispatcher(Protocol):
    """Sends orders to nodes without waiting; each raises ``NotConnected`` where there is no stream.

    Orders are idempotent by shard id and keep their sequence on a node.
    """

    def start(self, node_id: str, spec: ShardSpec) -> None:
        """Start a shard."""
        ...

    def stop(self, node_id: str, shard_id: str) -> None:
        """End a shard."""
        ...

    def drain(self, node_id: str, shard_id: str) -> None:
        """Let a shard take no new work."""
        ...


class Leadership(Protocol):
    """Whether this control plane may change what runs."""

    def is_leader(self) -> bool:
        """A standby places, evicts, drains and stops nothing."""
        ...

    def is_lapsed(self) -> bool:
        """It led, its lease has run out, and nobody else is known to lead."""
        ...

    def term(self) -> int:
        """The leader's term; 0 where nobody can depose it."""
        ...


class CatalogSource(Protocol):
    """The current catalog."""

    def current(self) -> Catalog:
        """The catalog of this instant, as one value."""
        ...

    def subscribe(self, on_swap: Callable[[], None]) -> Callable[[], None]:
        """Be told after each swap, until the returned function is called."""
        ...


class Gateways(Protocol):
    """The gateways that serve the published routes."""

    def traffic(self) -> Traffic:
        """What they see at this moment."""
        ...

    def subscribe(self, on_news: Callable[[], None]) -> Callable[[], None]:
        """Be told when something else is asked for, or a table has reached all of them."""
        ...

    def worked(self, endpoint_id: str, *, worked_at: float | None, looked_at: float) -> None:
        """An agent looked at an engine: when it last saw it at work, absent where never."""
        ...


class Recorder(Protocol):
    """Keeps what passes saw and decided."""

    def record(self, snapshot: Snapshot, decision: Decision, *, at: float) -> None:
        """Keep one pass, that of the time of day ``at``; never waits, never fails."""
        ...


def none_apart() -> tuple[GatewayView, ...]:
    """No gateways on other hosts."""
    return ()


def no_streams(_node_id: str, _reason: LlmgwError) -> None:
    """Nodes without streams, so that there is none to end."""


@dataclass(frozen=True, slots=True)
class Rooms:
    """All that surrounds the reconciler; without ``recorder`` passes are not kept.

    ``gateways_apart`` are those on other hosts, as people are shown them; ``dismiss`` ends the
    stream of a node, if it has one, and has its agent hear why.
    """

    catalog: CatalogSource
    dispatcher: Dispatcher
    leadership: Leadership
    clock: Clock
    recorder: Recorder | None = None
    gateways_apart: Callable[[], tuple[GatewayView, ...]] = none_apart
    dismiss: Callable[[str, LlmgwError], None] = no_streams
