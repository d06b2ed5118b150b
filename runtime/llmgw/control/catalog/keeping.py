"""Keeps the live catalog equal to what is declared and stored, and writes what operators change.

Each change is built whole before the store is written, and the store is written before the catalog
is swapped: what is refused has changed nothing. Where something is read again and again, that is
because another control plane may have written it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from llmgw.control.catalog import comparing, composing
from llmgw.control.catalog.composing import Composition
from llmgw.control.catalog.live import LiveCatalog
from llmgw.domain import transcribing
from llmgw.domain.catalog import Catalog, Model, unknown_model
from llmgw.domain.catalog_views import CatalogView, EntryView, ModelChange, Origin
from llmgw.domain.stored import ModelEdit, StoredModel
from llmgw.errors import DeadlinePassed, LlmgwError, NoStore, Unknown
from llmgw.kit import logs
from llmgw.kit.clock import Clock

REFRESH_S = 5.0
"""How old the catalog of a standby may be, and of a leader whose write had no answer."""

_log = logs.get(__name__)

Make = Callable[[Composition], Sequence[ModelEdit]]
"""What to change, told by what there is."""


class StoredModels(Protocol):
    """The stored entries; ``store.models_repo`` fits."""

    async def all(self) -> Sequence[StoredModel]:
        """Every entry, damaged ones too."""
        ...

    async def apply(self, edits: Sequence[ModelEdit], *, actor: str, at: float, owner: str) -> None:
        """Write all of these, or nothing; ``Conflict`` where somebody was quicker.

        ``Standby`` unless ``owner`` leads, where one is named.
        """
        ...


@dataclass(frozen=True, slots=True)
class Edited:
    """The catalog after a change, or as it would be, and what becomes of its entries."""

    composition: Composition
    changes: tuple[ModelChange, ...]

    @property
    def catalog(self) -> Catalog:
        """The whole catalog."""
        return self.composition.catalog


class CatalogKeeper:
    """The catalog of one control plane; without a store nothing can be changed while it runs."""

    def __init__(
        self,
        declared: Sequence[Model],
        *,
        stored: StoredModels | None,
        clock: Clock,
        owner: str = "",
    ) -> None:
        """``CatalogInvalid`` where what is declared is wrong; the store is not asked yet.

        ``owner`` is the candidate that must lead for a change to be written.
        """
        self._stored = stored
        self._clock = clock
        self._owner = owner
        self._composition = composing.compose(declared, ())
        self._complaint = ""
        self._turn = asyncio.Lock()
        self.live = LiveCatalog(self._composition.catalog)

    async def load(self) -> None:
        """Take in what is stored now; what the store raises where it does not answer."""
        if self._stored is None:
            return
        async with self._turn:
            await self._load(self._stored)

    async def run(self) -> None:
        """Look again and again what is stored, until cancelled."""
        while self._stored is not None:
            await asyncio.sleep(REFRESH_S)
            await self.refresh()

    async def refresh(self) -> None:
        """Look once; a store that does not answer changes nothing, and is complained of once."""
        try:
            await self.load()
        except LlmgwError as error:
            if error.message != self._complaint:
                _log.warning("catalog_not_refreshed", reason=error.message)
            self._complaint = error.message
        except Exception as fault:  # noqa: BLE001 - the next look must come all the same
            _log.error("catalog_refresh_failed", error=repr(fault), exc=fault)
        else:
            self._complaint = ""

    async def edit(self, make: Make, *, actor: str, is_trial: bool = False) -> Edited:
        """Change stored entries; a trial says what would come of it and writes nothing.

        ``NoStore`` without a store; ``CatalogInvalid``, ``Conflict`` or ``Unknown`` where it is
        refused, and what the store raises: then nothing has changed.
        """
        if self._stored is None:
            raise NoStore(
                "this control plane has no store, so the change would be gone with its next start; "
                "set auth.store, or write the model into `models` of its settings"
            )
        async with self._turn:
            await self._load(self._stored)
            before, at = self._composition, self._clock.wall()
            edits, after = await asyncio.to_thread(_tried, make, before, at)
            if edits and not is_trial:
                await self._write(self._stored, edits, actor=actor, at=at)
                await self._load(self._stored)
                after = self._composition
        changes = await asyncio.to_thread(comparing.changes, before.catalog, after.catalog)
        return Edited(after, tuple(changes))

    def shown(self) -> CatalogView:
        """Every entry as it was written, and what was left out."""
        catalog = self._composition.catalog
        return CatalogView(
            entries=tuple(self._entry(model) for _, model in sorted(catalog.models.items())),
            skipped=catalog.skipped,
        )

    def left_out_sources(self) -> tuple[str, ...] | None:
        """Where the weights of entries that were left out are; absent where one does not say."""
        return self._composition.left_out_sources

    def entry(self, name: str, *, within: Composition | None = None) -> EntryView:
        """One entry, by its name or an alias; ``Unknown`` when there is no such."""
        composition = within or self._composition
        model = composition.catalog.resolve(name)
        if model is None:
            why = composition.catalog.skipped.get(name)
            if why is None:
                raise unknown_model(name)
            raise Unknown(
                f"the stored model {name} was left out of the catalog: {why}; write it anew with "
                "'llmgw ctl model add --replace', or remove it"
            )
        return self._entry(model, within=composition)

    def _entry(self, model: Model, *, within: Composition | None = None) -> EntryView:
        composition = within or self._composition
        is_stored = model.name in composition.catalog.stored
        row = composition.rows[model.name] if is_stored else None
        written = None if row is None else row.definition
        return EntryView(
            name=model.name,
            origin=Origin.DECLARED if row is None else Origin.STORED,
            definition=transcribing.written(model) if not isinstance(written, dict) else written,
            scaling=model.scaling,
            fingerprints={p.name: p.fingerprint(model=model) for p in model.profiles},
            actor=None if row is None else row.actor,
            created_at=None if row is None else row.created_at,
            updated_at=None if row is None else row.updated_at,
            revision=None if row is None else row.revision,
        )

    async def _write(
        self, stored: StoredModels, edits: Sequence[ModelEdit], *, actor: str, at: float
    ) -> None:
        try:
            await stored.apply(edits, actor=actor, at=at, owner=self._owner)
        except DeadlinePassed as error:
            raise DeadlinePassed(
                f"{error.message}; whether it was changed comes out when the store answers: look "
                "again then"
            ) from error

    async def _load(self, stored: StoredModels) -> None:
        rows = {row.name: row for row in await stored.all()}
        if rows == self._composition.rows:
            return
        declared = self._composition.declared
        self._composition = await asyncio.to_thread(composing.compose, declared, rows.values())
        self.live.swap(self._composition.catalog)


def _tried(make: Make, before: Composition, at: float) -> tuple[Sequence[ModelEdit], Composition]:
    """What a change comes to; beside the loop, for a large catalog takes a while to check."""
    edits = make(before)
    return edits, composing.changed(before, edits, at=at) if edits else before
