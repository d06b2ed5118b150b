"""What tokens cost: whole micro-units for a thousand of them; pure.

Whole numbers, because sums of fractions drift. What a micro-unit is worth is the operator's choice:
1000 for everything makes it one token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmgw.errors import Invalid

_THOUSAND = 1000


@dataclass(frozen=True, slots=True)
class Price:
    """Micro-units for a thousand tokens, of what is asked and of what is answered."""

    prompt_per_1k: int = 0
    completion_per_1k: int = 0

    def __post_init__(self) -> None:
        """``Invalid`` where a half is below 0: nobody is paid for asking."""
        for name in ("prompt_per_1k", "completion_per_1k"):
            if (value := getattr(self, name)) < 0:
                raise Invalid(f"a price cannot be below 0, and {name} is {value}")

    @property
    def is_free(self) -> bool:
        """Costs nothing, so that no budget is asked."""
        return not self.prompt_per_1k and not self.completion_per_1k


FREE = Price()


def cost(price: Price, prompt_tokens: int, completion_tokens: int) -> int:
    """Micro-units of one request; each half is rounded up by itself, and is never below 0."""
    return _half(price.prompt_per_1k, prompt_tokens) + _half(
        price.completion_per_1k, completion_tokens
    )


def _half(per_1k: int, tokens: int) -> int:
    return -(-per_1k * tokens // _THOUSAND) if tokens > 0 else 0


class PriceTable:
    """What each model costs: as listed, even where that is nothing, and else the default."""

    __slots__ = ("_default", "_listed")

    def __init__(self, listed: Mapping[str, Price] | None = None, default: Price = FREE) -> None:
        """``listed`` by the model's own name; upper and lower case are the same."""
        self._listed = {name.casefold(): price for name, price in (listed or {}).items()}
        self._default = default

    def of(self, model: str) -> Price:
        """The price of a model by its own name; an alias is no name here."""
        return self._listed.get(model.casefold(), self._default)

    def is_anything_priced(self) -> bool:
        """Whether any budget can ever move."""
        return any(not price.is_free for price in (self._default, *self._listed.values()))
