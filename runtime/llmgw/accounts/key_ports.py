"""What keys, links, limits and the tree ask of the store; its repositories fit these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from llmgw.domain.api_keys import ApiKey, KeyChain, KeyClaim
from llmgw.domain.principals import Level, Scope
from llmgw.domain.stored import AuditEntry
from llmgw.domain.tenancy import Org, Place, Project, Team, Tree


class Acts(Protocol):
    """The log of acts."""

    async def append(self, entry: AuditEntry) -> None:
        """Keep an entry that goes with no other change."""
        ...


class Keys(Protocol):
    """The keys of one store; each change may bring its entry of the log of acts."""

    async def add(
        self,
        key: ApiKey,
        *,
        claim: KeyClaim | None = None,
        limits: Level | None = None,
        entry: AuditEntry | None = None,
    ) -> None:
        """Keep a new key, its link and its limits; ``Unknown`` project or person."""
        ...

    async def find(self, key_id: str) -> ApiKey:
        """One key; ``Unknown`` where there is none of this id."""
        ...

    async def all(
        self, *, project_id: str = "", user_id: str = "", prefix: str = ""
    ) -> Sequence[ApiKey]:
        """Keys, the oldest first, revoked ones too; of one project, person or prefix."""
        ...

    async def chain(self, key_hash: str, *, now: float) -> KeyChain | None:
        """The key with this hash, or that had it until a time to come, and what is above it."""
        ...

    async def chain_of(self, key_id: str) -> KeyChain | None:
        """The key of an id and what is above it."""
        ...

    async def revoke(self, key_id: str, *, at: float, entry: AuditEntry | None = None) -> ApiKey:
        """Let it open nothing any more; a revoked one stays as it is."""
        ...

    async def rotate(
        self,
        before: ApiKey,
        after: ApiKey,
        *,
        claim: KeyClaim | None = None,
        entry: AuditEntry | None = None,
    ) -> ApiKey:
        """Give a key another secret; ``Conflict`` where it is not any more what was read."""
        ...

    async def move(
        self, key_id: str, *, project_id: str, entry: AuditEntry | None = None
    ) -> ApiKey:
        """Put a key into another project; ``Unknown`` key or project."""
        ...

    async def touch(self, used_at: Mapping[str, float]) -> None:
        """When keys were used last, many at once."""
        ...


class Claims(Protocol):
    """Keys that wait for their owners."""

    async def find(self, token_hash: str) -> KeyClaim | None:
        """What a link was made for; asking opens nothing."""
        ...

    async def open(self, token_hash: str, *, at: float) -> KeyClaim | None:
        """Take what is sealed, once."""
        ...

    async def prune(self, *, now: float) -> int:
        """Empty what nobody fetched in time; how many those were."""
        ...


class Limits(Protocol):
    """Limits of places in the tree."""

    async def all(self) -> Sequence[Level]:
        """Every place that limits something."""
        ...

    async def find(self, scope: Scope, scope_id: str) -> Level:
        """What one place limits; ``Unknown`` where there is no such place."""
        ...

    async def change(
        self,
        scope: Scope,
        scope_id: str,
        values: Mapping[str, Any],
        *,
        entry: AuditEntry | None = None,
    ) -> Level:
        """Set these fields of a level and leave the others; ``Invalid``, ``Unknown``."""
        ...


class Places(Protocol):
    """The tree of one store."""

    async def read(self) -> Tree:
        """All of it."""
        ...

    async def add(self, place: Place, *, entry: AuditEntry | None = None) -> None:
        """Keep a new place; ``Conflict`` where its name is taken, ``Unknown`` what is above it."""
        ...

    async def found(
        self, org: Org, team: Team, project: Project, *, entry: AuditEntry | None = None
    ) -> bool:
        """Make sure of these three by their ids; whether anything changed."""
        ...

    async def rename(
        self, scope: Scope, place_id: str, name: str, *, entry: AuditEntry | None = None
    ) -> None:
        """Call a place something else; ``Unknown`` where it is not there."""
        ...
