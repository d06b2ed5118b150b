"""Bulletin as words of the load board; pure.

The last word is made from all others, so that a reader who saw half of an older and half of a newer
one knows it, on machines that reorder stores too.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence

from llmgw.gateway.bulletin import Bulletin
from llmgw.kit import mmapboard

_PROVEN = 1
_ABSENT = math.nan


def packed(key: int, bulletin: Bulletin) -> list[int]:
    """The words for the endpoint of ``key``; ``board_layout.BULLETIN_WORDS`` of them."""
    figures = (
        bulletin.scraped_at,
        bulletin.running,
        bulletin.waiting,
        bulletin.kv,
        bulletin.drain,
        bulletin.capacity,
    )
    words = [mmapboard.of_real(_ABSENT if one is None else one) for one in figures]
    flags = _PROVEN if bulletin.is_proven else 0
    body = [key, *words, flags]
    return [*body, _check(body)]


def is_whole(words: Sequence[int]) -> bool:
    """Whether they were written together."""
    return _check(words[:-1]) == words[-1]


def unpacked(words: Sequence[int]) -> Bulletin:
    """What ``packed`` was given."""
    _, *figures, flags, _ = words
    scraped_at, running, waiting, kv, drain, capacity = map(mmapboard.to_real, figures)
    return Bulletin(
        running=running,
        waiting=waiting,
        kv=_known(kv),
        drain=_known(drain),
        capacity=_known(capacity),
        is_proven=bool(flags & _PROVEN),
        scraped_at=_known(scraped_at),
    )


def _known(figure: float) -> float | None:
    return None if math.isnan(figure) else figure


def _check(words: Sequence[int]) -> int:
    return functools.reduce(operator.xor, words, 0)
