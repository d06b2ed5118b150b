"""What people and programs are shown of passes to come: actions, and how models would stand.

The reconciler makes them, the admin API and ``ctl`` show them; see ``views``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ActionView:
    """One action of a pass; what does not apply to its kind is absent."""

    kind: str
    reason: str
    model: str | None = None
    profile: str | None = None
    replica_id: str | None = None
    node_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanView:
    """What the next pass would do; ``waits`` says of each model why what it lacks is not placed."""

    actions: tuple[ActionView, ...]
    waits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PassView:
    """What one of several passes would do, so many seconds after the first one."""

    after_s: float
    actions: tuple[ActionView, ...]


@dataclass(frozen=True, slots=True)
class ModelOutlook:
    """How many replicas of a model serve before and after, and why fewer than are wanted."""

    model: str
    want: int
    before: int
    after: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OutlookView:
    """What would come of a change if every start served at once and every stop were confirmed.

    ``models`` are those that stand otherwise than before, or lack something. Not ``is_complete``
    when something was left to do at the end of what was looked at.
    """

    passes: tuple[PassView, ...]
    models: tuple[ModelOutlook, ...]
    is_complete: bool = True

    @property
    def is_enough(self) -> bool:
        """Every model has what is wanted of it."""
        return self.is_complete and all(one.after >= one.want for one in self.models)
