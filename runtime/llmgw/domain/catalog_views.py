"""What people and programs are shown of the catalog itself, and of changes of it.

How much of a model runs is told by ``views``; here is what was written, by whom, and what a change
would make of it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw.domain.catalog import Scaling


class Origin(enum.StrEnum):
    """Where an entry comes from; a declared one is changed in the settings alone."""

    DECLARED = "declared"
    STORED = "stored"


@dataclass(frozen=True, slots=True)
class EntryView:
    """One catalog entry as it was written, and what follows from it.

    ``actor``, times (seconds since 1970) and ``revision`` are known of stored ones alone;
    ``fingerprints`` are those of its profiles, ``scaling`` the one in force.
    """

    name: str
    origin: Origin
    definition: Mapping[str, object]
    scaling: Scaling | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    actor: str | None = None
    created_at: float | None = None
    updated_at: float | None = None
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class CatalogView:
    """Every entry in the order of their names, and stored ones that were left out, with why."""

    entries: tuple[EntryView, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScalingWish:
    """Numbers of replicas as an operator gives them; absent is as written before, or default."""

    min: int
    max: int | None = None
    idle_timeout: str | float | None = None


class ChangeKind(enum.StrEnum):
    """What becomes of an entry."""

    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One value that becomes another; absent is: not written, so its default."""

    path: str
    before: object = None
    after: object = None


@dataclass(frozen=True, slots=True)
class ModelChange:
    """What becomes of one entry; replicas of ``stale_profiles`` run on and are flagged."""

    name: str
    kind: ChangeKind
    fields: tuple[FieldChange, ...] = ()
    stale_profiles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceView:
    """Whether weights are where a source says; ``is_good`` is absent where nobody here can tell."""

    source: str
    is_good: bool | None
    detail: str
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an operator's word, or would come of it.

    ``entry`` is the one that it was about, as it is afterwards; absent where it is gone, or where
    the whole catalog was meant. ``sources`` are those that were looked for.
    """

    changes: tuple[ModelChange, ...]
    entry: EntryView | None = None
    sources: tuple[SourceView, ...] = ()
