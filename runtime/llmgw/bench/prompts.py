"""Prompts of a wanted length that no cache has seen, or that share their beginning; pure."""

from __future__ import annotations

import random
from collections.abc import Iterator

_WORDS = (
    *("river", "stone", "light", "paper", "window", "garden", "music", "silver", "morning"),
    *("letter", "market", "bridge", "forest", "engine", "winter", "signal", "harbour", "mirror"),
    *("kitchen", "mountain", "island", "yellow", "circle", "number", "answer", "moment", "wheel"),
)
_QUESTION = "Write a long text about these words."


def prompts(*, tokens: int, shared_tokens: int = 0, seed: int) -> Iterator[str]:
    """Endless prompts of about ``tokens`` tokens, one short English word being about one token.

    The first ``shared_tokens`` of them are the same in all; the rest, and the very first words when
    nothing is shared, are drawn anew each time.
    """
    draw = random.Random(seed)  # noqa: S311 - prompts are no secret
    shared = _drawn(draw, shared_tokens)
    while True:
        own = _drawn(draw, max(tokens - shared_tokens, 1))
        number = draw.getrandbits(64)
        yield " ".join([*shared, f"{number:x}", *own, _QUESTION])


def _drawn(draw: random.Random, count: int) -> list[str]:
    return draw.choices(_WORDS, k=count)
