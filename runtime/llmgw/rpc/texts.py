"""Makes text fit to travel: repaired Unicode, capped lines.

File names and engine output hold what they please; one bad byte or one endless line must not
end a node's stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MAX_LINE_CHARS = 4096
MAX_TAIL_CHARS = 1024 * 1024
"""All lines of one message together; far below the message limit even at four bytes a character."""


def repaired(text: str) -> str:
    """The same text with a ``?`` for what UTF-8 cannot carry."""
    return text.encode("utf-8", "replace").decode("utf-8")


def repaired_values(texts: Mapping[str, str]) -> dict[str, str]:
    """Keys and values, each repaired."""
    return {repaired(key): repaired(value) for key, value in texts.items()}


def cap_lines(lines: Iterable[str]) -> list[str]:
    """The newest lines that one message may carry, each cut at ``MAX_LINE_CHARS``."""
    kept: list[str] = []
    room = MAX_TAIL_CHARS
    for line in reversed(list(lines)):
        cut = repaired(line[:MAX_LINE_CHARS])
        room -= len(cut) + 1
        if room < 0:
            break
        kept.append(cut)
    return kept[::-1]
