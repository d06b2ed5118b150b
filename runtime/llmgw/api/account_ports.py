"""What the admin API asks of accounts: people, keys, the tree above them, and their limits.

``accounts.people_desk.PeopleDesk``, ``accounts.keys.KeyMaking`` and
``accounts.directory.Directory`` fit these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from llmgw.accounts.keys import KeyWish, MadeKey
from llmgw.accounts.people_desk import Issued, Newcomer
from llmgw.domain.actors import Actor
from llmgw.domain.api_keys import ApiKey, KeyChain, KeyState
from llmgw.domain.people import User, UserState
from llmgw.domain.principals import Level, Scope
from llmgw.domain.tenancy import Org, Project, Team, Tree


class KeyDesk(Protocol):
    """The life of keys."""

    async def create(self, wish: KeyWish, *, actor: Actor) -> MadeKey:
        """Make a key; ``Invalid``, or ``Unknown`` project or person."""
        ...

    async def rotate(
        self, key_id: str, *, actor: Actor, overlap_s: float = ..., claim_s: float | None = None
    ) -> MadeKey:
        """Give a key another secret; ``Unknown``, ``Conflict``."""
        ...

    async def revoke(self, key_id: str, *, actor: Actor) -> ApiKey:
        """Let a key open nothing any more; ``Unknown``."""
        ...

    async def move(self, key_id: str, *, project_id: str, actor: Actor) -> ApiKey:
        """Put a key into another project; ``Unknown`` key or project."""
        ...

    async def all(self, *, project_id: str = "", user_id: str = "") -> Sequence[ApiKey]:
        """Keys of a project or a person, or all."""
        ...

    async def find(self, reference: str) -> ApiKey:
        """A key by its id or its begin; ``Unknown``, ``Invalid``."""
        ...

    def state_of(self, key: ApiKey) -> KeyState:
        """What a key opens now."""
        ...


class TreeDesk(Protocol):
    """Organisations, teams and projects, and what each place limits."""

    async def tree(self) -> Tree:
        """All places."""
        ...

    async def chain(self, key_id: str) -> KeyChain:
        """A key with all that is above it; ``Unknown``."""
        ...

    async def add_org(self, name: str, *, actor: Actor) -> Org:
        """Add an organisation; ``Conflict``."""
        ...

    async def add_team(self, name: str, *, org: str, actor: Actor) -> Team:
        """Add a team; ``Conflict``, ``Unknown``."""
        ...

    async def add_project(self, name: str, *, team: str, actor: Actor) -> Project:
        """Add a project; ``Conflict``, ``Unknown``."""
        ...

    async def rename(self, scope: Scope, reference: str, name: str, *, actor: Actor) -> None:
        """Call a place something else; ``Unknown``."""
        ...

    async def limits(self) -> Sequence[Level]:
        """Every place that limits something."""
        ...

    async def level(self, scope: Scope, reference: str) -> Level:
        """What one place limits; ``Unknown``."""
        ...

    async def limit(
        self, scope: Scope, reference: str, values: Mapping[str, Any], *, actor: Actor
    ) -> Level:
        """Set limits of a place, the others stay; ``Invalid``, ``Unknown``."""
        ...


class UserDesk(Protocol):
    """What administrators do about people."""

    async def all(self, *, state: UserState | None = None) -> Sequence[User]:
        """Everybody, or those in one state."""
        ...

    async def find(self, reference: str) -> User:
        """By id or address; ``Unknown``."""
        ...

    async def create(self, wanted: Newcomer, *, actor: Actor) -> Issued:
        """Make an account; ``NotAnEmail``, ``EmailTaken``, ``Unknown`` project."""
        ...

    async def approve(self, reference: str, *, project_id: str, actor: Actor) -> User:
        """Let somebody in who waits; ``Unknown``, ``Conflict``."""
        ...

    async def suspend(self, reference: str, *, actor: Actor) -> User:
        """Shut somebody out; ``Unknown``, ``Conflict``."""
        ...

    async def restore(self, reference: str, *, actor: Actor) -> User:
        """Let somebody in again; ``Unknown``, ``Conflict``."""
        ...
