"""Read from a request body how long its answer may become at most; pure.

``charging`` asks where something is held for a request: most bodies are never asked.
"""

from __future__ import annotations

from typing import Any

import msgspec

MOST_TOKENS = 2**31
"""More than any answer has; a client may write any number."""

_MOST_ANSWERS = 1024


class _Asked(msgspec.Struct, frozen=True):
    max_completion_tokens: Any = None
    max_tokens: Any = None
    n: Any = None


_decode = msgspec.json.Decoder(_Asked).decode


def most_answered(body: bytes, *, default_tokens: int, context_left: int | None) -> int:
    """Tokens of all answers that it asks for; ``default_tokens`` each where it does not say.

    No answer is longer than what the model's context leaves, where that is known.
    """
    try:
        asked = _decode(body)
    except (msgspec.MsgspecError, RecursionError):  # its engine will judge
        asked = _Asked()
    each = _count(asked.max_completion_tokens) or _count(asked.max_tokens) or default_tokens
    if context_left is not None:
        each = min(each, max(context_left, 0))
    return each * min(_count(asked.n) or 1, _MOST_ANSWERS)


def _count(value: Any) -> int:
    """A number of things; 0 for what is none."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return min(value, MOST_TOKENS) if is_count else 0
