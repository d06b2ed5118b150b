"""The tree of organisations, teams and projects, what each limits, and who owns a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from llmgw.accounts.key_ports import Keys, Limits, Places
from llmgw.accounts.noting import Telling
from llmgw.domain import api_keys, limits, tenancy
from llmgw.domain.actors import Actor
from llmgw.domain.api_keys import KeyChain, KeyState
from llmgw.domain.principals import Level, Principal, Scope
from llmgw.domain.tenancy import DEFAULT, Org, Project, Team, Tree
from llmgw.errors import KeyUnknown, Unknown
from llmgw.kit import ids
from llmgw.kit.clock import Clock


class Directory:
    """Who is where, below which limits."""

    def __init__(
        self, *, tree: Places, keys: Keys, limits: Limits, clock: Clock, telling: Telling
    ) -> None:
        """The parts of one store."""
        self._tree = tree
        self._keys = keys
        self._limits = limits
        self._clock = clock
        self._telling = telling

    async def principal_of(self, key_hash: str) -> Principal:
        """The owner of a key by the hash of its secret; ``KeyUnknown`` where it opens nothing."""
        now = self._clock.wall()
        chain = await self._keys.chain(key_hash, now=now)
        if chain is None or chain.key.state(now) is not KeyState.ACTIVE:
            raise KeyUnknown("the key is not known here, was revoked, or has run out")
        return api_keys.principal(chain)

    async def chain(self, key_id: str) -> KeyChain:
        """A key with all that is above it; ``Unknown``."""
        chain = await self._keys.chain_of(key_id)
        if chain is None:
            raise Unknown(f"there is no key {key_id!r}; see 'llmgw keys list'")
        return chain

    async def tree(self) -> Tree:
        """All places."""
        return await self._tree.read()

    async def found(self, *, org: str, team: str, project: str, actor: Actor) -> bool:
        """Make sure of the first organisation, team and project; whether anything changed.

        A second time they get these names.
        """
        names = {"org": org, "team": team, "project": project}
        async with self._telling.of(actor, "tree.init", target=DEFAULT, after=names) as entry:
            now = self._clock.wall()
            return await self._tree.found(
                Org(DEFAULT, tenancy.check_name(org, what="an organisation"), now),
                Team(DEFAULT, DEFAULT, tenancy.check_name(team, what="a team"), now),
                Project(DEFAULT, DEFAULT, tenancy.check_name(project, what="a project"), now),
                entry=entry,
            )

    async def add_org(self, name: str, *, actor: Actor) -> Org:
        """Add an organisation; ``Conflict`` where its name is taken."""
        async with self._telling.of(actor, "org.add", target=name) as entry:
            named = tenancy.check_name(name, what="an organisation")
            org = Org(_new_id("org"), named, self._clock.wall())
            await self._tree.add(org, entry=entry)
            return org

    async def add_team(self, name: str, *, org: str, actor: Actor) -> Team:
        """Add a team to an organisation, by the id or name of that one."""
        after = {"org": org}
        async with self._telling.of(actor, "team.add", target=name, after=after) as entry:
            named = tenancy.check_name(name, what="a team")
            above = (await self._tree.read()).org(org)
            team = Team(_new_id("team"), above.org_id, named, self._clock.wall())
            await self._tree.add(team, entry=entry)
            return team

    async def add_project(self, name: str, *, team: str, actor: Actor) -> Project:
        """Add a project to a team, by the id, name or path of that one."""
        after = {"team": team}
        async with self._telling.of(actor, "project.add", target=name, after=after) as entry:
            named = tenancy.check_name(name, what="a project")
            above = (await self._tree.read()).team(team)
            project = Project(_new_id("project"), above.team_id, named, self._clock.wall())
            await self._tree.add(project, entry=entry)
            return project

    async def rename(self, scope: Scope, reference: str, name: str, *, actor: Actor) -> None:
        """Call a place something else; keys and limits stay."""
        after = {"name": name}
        async with self._telling.of(
            actor, f"{scope}.rename", target=reference, after=after
        ) as entry:
            place_id = await self.id_of(scope, reference)
            named = tenancy.check_name(name, what=f"a place of the scope {scope}")
            await self._tree.rename(scope, place_id, named, entry=entry)

    async def limits(self) -> Sequence[Level]:
        """Every place that limits something."""
        return await self._limits.all()

    async def level(self, scope: Scope, reference: str) -> Level:
        """What one place limits."""
        return await self._limits.find(scope, await self.id_of(scope, reference))

    async def limit(
        self, scope: Scope, reference: str, values: Mapping[str, Any], *, actor: Actor
    ) -> Level:
        """Set limits of a place, or take them away with absent values; the others stay."""
        async with self._telling.of(
            actor, "limits.change", target=f"{scope}:{reference}", after=_plain(values)
        ) as entry:
            limits.check(Level(scope, reference, **values))
            place_id = await self.id_of(scope, reference)
            return await self._limits.change(scope, place_id, values, entry=entry)

    async def id_of(self, scope: Scope, reference: str) -> str:
        """The id of a place or key that was named by id, name or path."""
        if scope == "key":
            return reference
        place = getattr(await self._tree.read(), scope)(reference)
        return tenancy.id_of(cast("tenancy.Place", place))


def _new_id(kind: str) -> str:
    return f"{kind}-{ids.token(5)}"


def _plain(values: Mapping[str, Any]) -> Mapping[str, object]:
    return {
        name: sorted(value) if isinstance(value, (frozenset, set)) else value
        for name, value in values.items()
    }
