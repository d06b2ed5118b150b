"""The price table that the settings write down."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw.config.paying import PriceSettings
from llmgw.domain.pricing import Price, PriceTable


def table(pricing: Mapping[str, PriceSettings], default_price: PriceSettings) -> PriceTable:
    """Of ``auth.pricing`` and ``auth.default_price``."""
    return PriceTable(
        {name: _price(written) for name, written in pricing.items()}, _price(default_price)
    )


def _price(written: PriceSettings) -> Price:
    return Price(written.prompt_per_1k, written.completion_per_1k)
