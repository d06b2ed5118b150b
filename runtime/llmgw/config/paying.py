"""What can be set of prices and of how usage is kept.

A part of ``config.settings``, which declares the whole. Money is whole micro-units; what one of
them is worth is the operator's choice.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.config.declaring import Seconds, setting

_MOST = 10**9


@dataclass(frozen=True, slots=True)
class PriceSettings:
    """What a thousand tokens of a model cost."""

    prompt_per_1k: int = setting(
        0, "Micro-units for a thousand tokens that are asked.", at_least=0, at_most=_MOST
    )
    completion_per_1k: int = setting(
        0, "Micro-units for a thousand tokens that are answered.", at_least=0, at_most=_MOST
    )


@dataclass(frozen=True, slots=True)
class AccountingSettings:
    """What is held of a budget while a request runs."""

    default_completion_tokens: int = setting(
        1024,
        "Tokens that an answer is taken to have at most whose request does not say how many.",
        at_least=1,
        at_most=1_000_000,
    )


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """The account of what was used, in the store."""

    retain_days: int = setting(
        90, "Rows of single requests that are older go; their sums stay for ever.", at_least=2
    )
    flush_interval: Seconds = setting(
        0.2, "Time between two looks for requests that have ended.", at_least=0.01, at_most=60
    )
    batch_size: int = setting(
        500, "Rows that are brought to the store at once.", at_least=1, at_most=1000
    )
