"""What commands ask and tell the admin API about the catalog itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from pydantic import TypeAdapter

from llmgw.cli.client import AHEAD_TIMEOUT_S, AdminClient, Answer
from llmgw.domain.catalog_views import CatalogView, EntryView, Outcome, ScalingWish
from llmgw.domain.views import ModelView

SOURCE_TIMEOUT_S = 30.0
"""Above the 10 s that the control plane gives a source to answer."""


@dataclass(frozen=True, slots=True)
class CatalogQuestions:
    """The catalog behind one admin address; each change may be a trial."""

    client: AdminClient

    def catalog(self) -> Answer[CatalogView]:
        """Every entry as it was written."""
        document = self.client.send("GET", "catalog")
        return Answer(document, self.client.read(document, TypeAdapter(CatalogView)))

    def entry(self, name: str) -> Answer[EntryView]:
        """One entry as it was written; ``Unknown`` when there is no such."""
        document = self.client.send("GET", f"models/{_part(name)}/definition")
        return Answer(document, self.client.read(document, TypeAdapter(EntryView)))

    def add(
        self, text: str, *, may_replace: bool, has_source_check: bool, is_trial: bool
    ) -> Answer[Outcome]:
        """A new entry."""
        body = {"definition": text, "replace": may_replace, "check_source": has_source_check}
        return self._told("POST", "models", body, is_trial=is_trial, timeout_s=SOURCE_TIMEOUT_S)

    def remove(self, name: str, *, is_trial: bool) -> Answer[Outcome]:
        """An entry less."""
        return self._told("DELETE", f"models/{_part(name)}", None, is_trial=is_trial)

    def scale(self, name: str, wish: ScalingWish, *, is_trial: bool) -> Answer[Outcome]:
        """Other numbers of replicas."""
        body = {"min": wish.min, "max": wish.max, "idle_timeout": wish.idle_timeout}
        return self._told("PATCH", f"models/{_part(name)}/scaling", body, is_trial=is_trial)

    def fall_back(self, name: str, fallbacks: Sequence[str], *, is_trial: bool) -> Answer[Outcome]:
        """Other models that answer in its stead."""
        body = {"fallbacks": list(fallbacks)}
        return self._told("PUT", f"models/{_part(name)}/fallbacks", body, is_trial=is_trial)

    def describe(self, name: str, text: str, *, is_trial: bool) -> Answer[Outcome]:
        """Another line for people who choose."""
        body = {"description": text}
        return self._told("PATCH", f"models/{_part(name)}", body, is_trial=is_trial)

    def apply(
        self, text: str, *, may_remove: bool, has_source_check: bool, is_trial: bool
    ) -> Answer[Outcome]:
        """All stored entries at once."""
        body = {"models": text, "prune": may_remove, "check_sources": has_source_check}
        return self._told("PUT", "catalog", body, is_trial=is_trial, timeout_s=AHEAD_TIMEOUT_S)

    def retry(self, name: str) -> Answer[ModelView]:
        """A model that failed, started anew without waiting longer."""
        document = self.client.send("POST", f"models/{_part(name)}/retry")
        return Answer(document, self.client.read(document, TypeAdapter(ModelView)))

    def _told(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        *,
        is_trial: bool,
        timeout_s: float | None = None,
    ) -> Answer[Outcome]:
        params = {"dry_run": "1" if is_trial else None}
        document = self.client.send(method, path, params=params, body=body, timeout_s=timeout_s)
        return Answer(document, self.client.read(document, TypeAdapter(Outcome)))


def _part(name: str) -> str:
    """One part of a path, whatever was typed."""
    return quote(name, safe="")
