"""What a store keeps for the control plane, as values: wishes, words of operators, and who leads.

Rooms of the control plane ask for these through ports of their own; ``store`` fits them. What runs
is never among them: that is told by the fleet. Times are seconds since 1970, kept to the
millisecond. Texts that came as JSON or YAML are mappings here; their owner reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw.domain.nodes import NodeTarget


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A catalog entry that was added at run time, exactly as it was written."""

    name: str
    definition: Mapping[str, object] | str
    """What was written; a text where that cannot be read any more."""
    actor: str
    created_at: float
    updated_at: float
    revision: int
    """Rises with each change; a change names the one that it has read."""


@dataclass(frozen=True, slots=True)
class ModelEdit:
    """One change of a stored entry, made from what was read before."""

    name: str
    before: StoredModel | None
    """What it was made from; absent: there is none of that name yet."""
    definition: Mapping[str, object] | None
    """What is to be stored; absent: nothing any more."""


@dataclass(frozen=True, slots=True)
class StoredNode:
    """What must be known of a node when it does not speak."""

    node_id: str
    enrolled_at: float
    target: NodeTarget = NodeTarget.READY
    reason: str = ""
    actor: str = ""
    since: float | None = None
    """When the target was set; absent where nobody ever set one."""
    is_banned: bool = False
    """Its certificate is no longer believed."""
    access: Mapping[str, object] = field(default_factory=dict)
    """How it is reached by SSH; never a secret."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """What it last said of itself."""
    seen_at: float | None = None
    """When that was; absent where it never registered."""


@dataclass(frozen=True, slots=True)
class NodeFlag:
    """An operator's word on a node."""

    target: NodeTarget
    reason: str
    actor: str
    at: float


@dataclass(frozen=True, slots=True)
class StoredRoll:
    """A roll of a model that an operator has asked for and that has not come to its end."""

    model: str
    begun_at: float
    may_interrupt: bool = False
    actor: str = ""
    halted: str = ""
    """Why it went no further."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries of the audit log are looked for; what is empty does not matter."""

    actor: str = ""
    action: str = ""
    target: str = ""
    since: float | None = None
    before_id: int | None = None
    """Older than this entry: the last one of the page before."""
    after_id: int | None = None
    """Newer than this entry: the newest one that was seen."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who leads, as the store says."""

    owner: str
    term: int
    address: str
    """Where the owner's admin API answers."""
    left_s: float
    """How long it still holds, by the store's clock; 0 and less: it has run out."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one way to run a model was measured to carry."""

    model: str
    profile: str
    result: Mapping[str, object]
    slo: Mapping[str, object]
    measured_at: float


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Something that somebody did or was refused; written once and never changed."""

    at: float
    actor: str
    origin: str
    """How it came: `cli`, `api`, `page`, or the room that acted by itself."""
    action: str
    """What was done, a noun and a verb: `model.add`, `node.drain`."""
    target: str
    outcome: str
    """`done`, or the code of the error that refused it."""
    before: Mapping[str, object] | None = None
    after: Mapping[str, object] | None = None
    request_id: str = ""
    entry_id: int = 0
    """Given by the store; 0 until then."""
