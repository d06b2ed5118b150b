"""Makes text that came from elsewhere safe to print: it may come from a node's log; pure."""

from __future__ import annotations

_WHITESPACE = str.maketrans("\t\r\n", "   ")


def one_line(text: str) -> str:
    """``text`` on one line, with each control character replaced."""
    flat = text.translate(_WHITESPACE)
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in flat)
