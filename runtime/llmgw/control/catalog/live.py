"""Holds which catalog is the current one.

A reader takes the value once and finishes its work with it, so a swap is never seen half-way.
"""

from __future__ import annotations

from collections.abc import Callable

from llmgw.domain.catalog import Catalog
from llmgw.kit import logs
from llmgw.kit.subscribers import Subscribers

_log = logs.get(__name__)


class LiveCatalog:
    """The current catalog; swapped whole, on the control plane's own loop."""

    def __init__(self, catalog: Catalog) -> None:
        """Begin with a catalog that was built with every check."""
        self._current = catalog
        self._on_swap: Subscribers[Callable[[], None]] = Subscribers()

    def current(self) -> Catalog:
        """The catalog of this instant."""
        return self._current

    def swap(self, catalog: Catalog) -> None:
        """Make another one current, then tell whoever asked."""
        before, self._current = self._current, catalog
        _log.info(
            "catalog_swapped",
            added=",".join(sorted(catalog.models.keys() - before.models.keys())) or None,
            removed=",".join(sorted(before.models.keys() - catalog.models.keys())) or None,
            models=len(catalog.models),
        )
        for name, why in catalog.skipped.items():
            if before.skipped.get(name) != why:
                _log.warning("stored_model_skipped", model=name, reason=why)
        for told in self._on_swap:
            told()

    def subscribe(self, on_swap: Callable[[], None]) -> Callable[[], None]:
        """Be told after each swap, until the returned function is called."""
        return self._on_swap.add(on_swap)
