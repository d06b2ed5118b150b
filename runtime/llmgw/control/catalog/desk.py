"""Takes operators' words on the catalog, whichever way they come; fits ``api.ports.Catalogs``.

A word is understood first, then the sources that it brings are looked for, and only then anything
is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from llmgw.control.catalog import editing
from llmgw.control.catalog.keeping import CatalogKeeper, Edited, Make
from llmgw.domain.catalog_views import (
    CatalogView,
    ChangeKind,
    EntryView,
    ModelChange,
    Outcome,
    ScalingWish,
    SourceView,
)
from llmgw.errors import CatalogInvalid, Problem

Definition = Mapping[str, object]


class Sources(Protocol):
    """Looks whether weights are there; ``control.catalog.source_check`` fits."""

    async def check(self, source: str) -> SourceView:
        """Bounded; a refusal is an answer."""
        ...


class CatalogDesk:
    """The catalog as operators read and change it."""

    def __init__(self, keeper: CatalogKeeper, *, sources: Sources) -> None:
        """``keeper`` writes, ``sources`` looks."""
        self._keeper = keeper
        self._sources = sources

    def shown(self) -> CatalogView:
        """See ``api.ports.Catalogs``."""
        return self._keeper.shown()

    def left_out_sources(self) -> tuple[str, ...] | None:
        """See ``api.ports.Catalogs``."""
        return self._keeper.left_out_sources()

    def entry(self, name: str) -> EntryView:
        """See ``api.ports.Catalogs``."""
        return self._keeper.entry(name)

    async def check_source(self, source: str) -> SourceView:
        """See ``api.ports.Catalogs``."""
        return await self._sources.check(source)

    async def add(
        self,
        definition: Definition,
        *,
        may_replace: bool,
        has_source_check: bool,
        actor: str,
        is_trial: bool,
    ) -> Outcome:
        """See ``api.ports.Catalogs``."""
        make = partial(editing.added, definition=definition, may_replace=may_replace)
        sources = await self._looked_for(make) if has_source_check else ()
        edited = await self._keeper.edit(make, actor=actor, is_trial=is_trial)
        return self._outcome(edited, name=str(definition["name"]).strip(), sources=sources)

    async def remove(self, name: str, *, actor: str, is_trial: bool) -> Outcome:
        """See ``api.ports.Catalogs``."""
        make = partial(editing.removed, name=name)
        edited = await self._keeper.edit(make, actor=actor, is_trial=is_trial)
        return self._outcome(edited)

    async def scale(self, name: str, wish: ScalingWish, *, actor: str, is_trial: bool) -> Outcome:
        """See ``api.ports.Catalogs``."""
        make = partial(editing.rescaled, name=name, wish=wish)
        edited = await self._keeper.edit(make, actor=actor, is_trial=is_trial)
        return self._outcome(edited, name=name)

    async def fall_back(
        self, name: str, fallbacks: Sequence[str], *, actor: str, is_trial: bool
    ) -> Outcome:
        """See ``api.ports.Catalogs``."""
        make = partial(editing.with_fallbacks, name=name, fallbacks=fallbacks)
        edited = await self._keeper.edit(make, actor=actor, is_trial=is_trial)
        return self._outcome(edited, name=name)

    async def describe(self, name: str, text: str, *, actor: str, is_trial: bool) -> Outcome:
        """See ``api.ports.Catalogs``."""
        make = partial(editing.described, name=name, description=text)
        edited = await self._keeper.edit(make, actor=actor, is_trial=is_trial)
        return self._outcome(edited, name=name)

    async def apply(
        self,
        definitions: Sequence[Definition],
        *,
        may_remove: bool,
        has_source_check: bool,
        actor: str,
        is_trial: bool,
    ) -> Outcome:
        """See ``api.ports.Catalogs``."""
        make = partial(editing.applied, wanted=definitions, may_remove=may_remove)
        sources = await self._looked_for(make) if has_source_check else ()
        edited = await self._keeper.edit(make, actor=actor, is_trial=is_trial)
        return self._outcome(edited, sources=sources)

    async def _looked_for(self, make: Make) -> Sequence[SourceView]:
        """The sources that a change brings; ``CatalogInvalid`` where weights are not there."""
        edited = await self._keeper.edit(make, actor="", is_trial=True)
        models = edited.catalog.models
        named = [(one.name, models[one.name].source) for one in edited.changes if _brings(one)]
        found = await asyncio.gather(*(self._sources.check(source) for _, source in named))
        bad = [
            Problem(f"{name}.source" if len(named) > 1 else "source", view.detail)
            for (name, _), view in zip(named, found, strict=True)
            if view.is_good is False
        ]
        if bad:
            raise CatalogInvalid(
                "nothing was changed: weights were not found; without the check of sources "
                "(--no-source-check) it is done all the same",
                bad,
            )
        return found

    def _outcome(
        self, edited: Edited, *, name: str = "", sources: Sequence[SourceView] = ()
    ) -> Outcome:
        entry = self._keeper.entry(name, within=edited.composition) if name else None
        return Outcome(edited.changes, entry=entry, sources=tuple(sources))


def _brings(change: ModelChange) -> bool:
    return change.kind is not ChangeKind.REMOVE and any(f.path == "source" for f in change.fields)
