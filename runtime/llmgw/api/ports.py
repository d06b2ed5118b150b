"""What the admin API asks of the house; the reconciler and the agent service fit these."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from llmgw.api.account_ports import KeyDesk, TreeDesk, UserDesk
from llmgw.domain.actors import Actor
from llmgw.domain.catalog_views import (
    CatalogView,
    EntryView,
    Outcome,
    ScalingWish,
    SourceView,
)
from llmgw.domain.decided import DecidedPass
from llmgw.domain.deeds import Deed
from llmgw.domain.nodes import NodeTarget
from llmgw.domain.outlooks import OutlookView, PlanView
from llmgw.domain.placement_views import PlacementView
from llmgw.domain.questions import WhatIf
from llmgw.domain.status_views import LeadView, StatusView
from llmgw.domain.stored import AuditEntry, AuditFilter, Capacity
from llmgw.domain.usage_reports import DayCheck, Grouping, Span, UsageSum
from llmgw.domain.usage_rows import UsageRow
from llmgw.domain.views import LogTail, ModelView, NodeView, RefusalView, ReplicaView


class FleetViews(Protocol):
    """The fleet as it is now; every answer is a frozen value, taken from memory without waiting."""

    def status(self) -> StatusView:
        """The fleet on one page."""
        ...

    def nodes(self) -> Sequence[NodeView]:
        """Every known node, lost ones too, in the order of their ids."""
        ...

    def models(self) -> Sequence[ModelView]:
        """Every catalog entry, in the order of their names."""
        ...

    def replicas(self) -> Sequence[ReplicaView]:
        """Every replica that holds something on a node, in the order of their ids."""
        ...

    def explain(self, model: str) -> PlacementView:
        """Why a model (by name or alias) is or is not placed; ``Unknown`` when there is no such."""
        ...


class NodeLogs(Protocol):
    """The logs that a connected node can show."""

    async def logs(self, *, node_id: str, source: str, lines: int) -> LogTail:
        """The end of one log; ``NotConnected``, ``Unknown`` source or ``DeadlinePassed``."""
        ...


class EngineChecks(Protocol):
    """Engines on a connected node, asked for their options."""

    async def check_engine(self, *, node_id: str, engine: str) -> Sequence[Deed]:
        """A deed for each program; ``NotConnected`` or ``DeadlinePassed``."""
        ...


class NodeFlags(Protocol):
    """An operator's word on a node."""

    async def set_node_state(
        self, node_id: str, *, target: NodeTarget, reason: str, actor: str
    ) -> NodeView:
        """The node with the flag set; ``Unknown`` node, ``Standby`` where nobody may say so."""
        ...

    async def ban_node(self, node_id: str, *, is_banned: bool) -> NodeView:
        """The node, let in no more or again; ``Unknown`` node, ``Standby``."""
        ...

    async def forget_node(self, node_id: str) -> None:
        """Drop a node; ``Unknown``, ``Standby``, or ``Conflict`` while it is there."""
        ...


class Rolls(Protocol):
    """An operator's word on the replicas of a model."""

    async def roll(self, model: str, *, may_interrupt: bool, actor: str) -> ModelView:
        """Have them follow its profile; ``Unknown`` model, ``Standby``."""
        ...

    def retry(self, model: str) -> ModelView:
        """Start it anew without waiting longer; ``Unknown`` model, ``Standby``."""
        ...


class Catalogs(Protocol):
    """The catalog as operators read and change it.

    A change raises ``NoStore`` without a store, ``CatalogInvalid`` with every mistake, ``Conflict``
    or ``Unknown`` where it is refused; then nothing has changed. A trial changes nothing either.
    """

    def shown(self) -> CatalogView:
        """Every entry as it was written, and stored ones that were left out."""
        ...

    def left_out_sources(self) -> tuple[str, ...] | None:
        """Where the weights of entries that were left out are; absent where one does not say."""
        ...

    def entry(self, name: str) -> EntryView:
        """One entry, by its name or an alias; ``Unknown`` when there is no such."""
        ...

    async def check_source(self, source: str) -> SourceView:
        """Whether weights are where a source says; bounded."""
        ...

    async def add(
        self,
        definition: Mapping[str, object],
        *,
        may_replace: bool,
        has_source_check: bool,
        actor: str,
        is_trial: bool,
    ) -> Outcome:
        """A new entry, or one in place of a stored one."""
        ...

    async def remove(self, name: str, *, actor: str, is_trial: bool) -> Outcome:
        """An entry less; its replicas drain and stop."""
        ...

    async def scale(self, name: str, wish: ScalingWish, *, actor: str, is_trial: bool) -> Outcome:
        """Other numbers of replicas; all else stays as it was written."""
        ...

    async def fall_back(
        self, name: str, fallbacks: Sequence[str], *, actor: str, is_trial: bool
    ) -> Outcome:
        """Other models that answer in its stead."""
        ...

    async def describe(self, name: str, text: str, *, actor: str, is_trial: bool) -> Outcome:
        """Another line for people who choose; an empty one takes it away."""
        ...

    async def apply(
        self,
        definitions: Sequence[Mapping[str, object]],
        *,
        may_remove: bool,
        has_source_check: bool,
        actor: str,
        is_trial: bool,
    ) -> Outcome:
        """Make the stored entries those that are written here."""
        ...


class NodeDownloads(Protocol):
    """The downloads of connected nodes."""

    async def remove_weights(self, node_id: str, paths: Sequence[str]) -> tuple[Deed, ...]:
        """Ask a node to remove downloads; ``NotConnected``, or ``DeadlinePassed``."""
        ...

    async def fetch_weights(
        self, node_id: str, sources: Sequence[str], *, is_cancelled: bool
    ) -> tuple[Deed, ...]:
        """Ask a node to fetch weights ahead, or no longer; a deed for each source."""
        ...


class Refusals(Protocol):
    """Whose stream was refused or ended."""

    def refusals(self) -> Sequence[RefusalView]:
        """The last one of each caller, the newest first."""
        ...


class Plans(Protocol):
    """What passes would do; nothing of it is done."""

    async def plan(self) -> PlanView:
        """The next pass."""
        ...

    async def what_if(self, question: WhatIf) -> OutlookView:
        """What would come of a change; ``Unknown`` node or model, ``CatalogInvalid``."""
        ...


class Bundles(Protocol):
    """What somebody who helps has to see."""

    async def support_bundle(self, *, passes: int) -> bytes:
        """A ``tar.gz`` with nothing secret in it, and at most so many passes of the journal."""
        ...


class Brakes(Protocol):
    """The brake on a mass loss."""

    def lift_brake(self) -> bool:
        """Take it off; false where it was not on, ``Standby`` where nobody may say so."""
        ...


class Measurements(Protocol):
    """What ways to run models were measured to carry."""

    async def measurements(self) -> Sequence[Capacity]:
        """The last one of each model and profile; ``NoStore`` where none are kept."""
        ...

    async def measure(
        self, *, model: str, profile: str, result: Mapping[str, object], slo: Mapping[str, object]
    ) -> Capacity:
        """Keep one in the place of the last one."""
        ...


class Decisions(Protocol):
    """What passes did."""

    async def decisions(self, *, limit: int, since: float | None) -> Sequence[DecidedPass]:
        """The last ones that did something, the newest first; ``Conflict`` where none are kept."""
        ...


class Lead(Protocol):
    """Whether this control plane may be told anything."""

    def lead(self) -> LeadView:
        """How it stands, and who else leads."""
        ...


class Audit(Protocol):
    """The log of what was done to the fleet and what was refused."""

    async def note(
        self,
        actor: Actor,
        *,
        action: str,
        target: str,
        outcome: str,
        before: Mapping[str, object] | None = None,
        after: Mapping[str, object] | None = None,
    ) -> None:
        """Keep one act; bounded, and never fails."""
        ...

    async def page(self, wanted: AuditFilter, *, limit: int) -> Sequence[AuditEntry]:
        """Acts, the newest first; ``NoStore`` where none are kept."""
        ...


class UsageBooks(Protocol):
    """The account of what was used; ``NoStore`` where none is kept."""

    async def report(
        self, by: Grouping, span: Span, *, key_id: str = "", limit: int
    ) -> Sequence[UsageSum]:
        """Sums by whose it is, the dearest first; of days, the newest first."""
        ...

    async def rows(self, span: Span) -> AsyncIterator[Sequence[UsageRow]]:
        """The requests of a time in order, page by page, as long as they are kept."""
        ...

    async def check(self, *, days: int) -> Sequence[DayCheck]:
        """The last days, each summed from its requests and from its sums."""
        ...


class Readiness(Protocol):
    """Whether this process should be sent traffic."""

    def obstacles(self) -> Sequence[str]:
        """What is missing, a sentence each; empty when nothing is."""
        ...


class MetricsPage(Protocol):
    """The figures of this host's gateway."""

    async def metrics_page(self) -> str:
        """Those of this moment, in the text format of Prometheus; within 2 seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Control:
    """What a control plane offers to the API."""

    fleet: FleetViews
    logs: NodeLogs
    checks: EngineChecks
    flags: NodeFlags
    refusals: Refusals
    downloads: NodeDownloads
    plans: Plans
    bundles: Bundles
    rolls: Rolls
    catalogs: Catalogs
    lead: Lead
    audit: Audit
    brakes: Brakes
    measurements: Measurements
    decisions: Decisions
    usage: UsageBooks
    keys: KeyDesk | None = None
    """Absent without a store, as the tree."""
    tree: TreeDesk | None = None
    people: UserDesk | None = None
