"""What a simulated engine says and counts: Greek letters for tokens, words for prompt tokens."""

from __future__ import annotations

import base64
import math
import random
import struct

_ALPHABET = """
alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu
nu xi omicron pi rho sigma tau upsilon phi chi psi omega
"""
GREEK = tuple(_ALPHABET.split())


def token(index: int) -> str:
    """The token at a place in an answer; every one but the first begins with a blank."""
    word = GREEK[index % len(GREEK)]
    return word if index == 0 else f" {word}"


def text(n_tokens: int) -> str:
    """An answer of that many tokens."""
    return "".join(token(i) for i in range(n_tokens))


def count(prompt: str) -> int:
    """Prompt tokens: one a word, at least one."""
    return max(1, len(prompt.split()))


def vector(prompt: str, *, dimensions: int) -> list[float]:
    """A unit vector that depends on the text alone."""
    draw = random.Random(prompt)  # noqa: S311  (same text, same vector; nothing secret)
    values = [draw.gauss(0.0, 1.0) for _ in range(dimensions)]
    length = math.sqrt(sum(v * v for v in values)) or 1.0
    return [v / length for v in values]


def packed(values: list[float]) -> str:
    """A vector as base64 of little-endian 32-bit floats, which is what OpenAI's clients ask for."""
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode("ascii")
