"""What models cost: a price of their own, or what the settings write down."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llmgw.config.paying import PriceSettings
from llmgw.domain.pricing import Price, PriceTable
from llmgw.domain.routes import RouteTable


class RoutedPrices:
    """Prices of a worker: a model's own goes before what the settings list."""

    __slots__ = ("_current", "_table")

    def __init__(self, table: PriceTable, *, current: Callable[[], RouteTable]) -> None:
        """``current`` gives the routes of this moment, which bring prices of models."""
        self._table = table
        self._current = current

    def of(self, model: str) -> Price:
        """The price of a model by its own name."""
        routed = self._current().models.get(model)
        own = None if routed is None else routed.price
        return self._table.of(model) if own is None else own


def listed(pricing: Mapping[str, PriceSettings]) -> Mapping[str, Price]:
    """The prices of ``auth.pricing``."""
    return {name: written(price) for name, price in pricing.items()}


def written(price: PriceSettings) -> Price:
    """One price of the settings."""
    return Price(price.prompt_per_1k, price.completion_per_1k)
