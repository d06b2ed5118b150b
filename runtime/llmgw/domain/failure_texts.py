"""How operators are told of an engine's failure: our sentence, the exit code, its own line; pure.

What an engine printed is for operators only; clients are told our own sentence alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_LINE_CHARS = 240

_PROCESS = re.compile(r"\[[^\]]+\] ")
_SOUNDS_WRONG = re.compile(
    r"error|exception|fail|fatal|cannot|can't|unable|denied|invalid|no such|not found|not a |"
    r"out of memory|unrecognized|unsupported|abort|panic",
    re.IGNORECASE,
)
_ONLY_FOLLOWS = re.compile(
    r"exiting due to|root cause|traceback|^usage:|see .* above|-h, --help|for more information",
    re.IGNORECASE,
)


def failure(error: str, *, exit_code: int | None, last_output: Sequence[str]) -> str:
    """One line: the error, the exit code unless it is told already, what the engine said itself."""
    is_told = exit_code is None or exit_code < 0 or "exit code" in error
    told = error if is_told else f"{error} (exit code {exit_code})"
    line = telling_line(last_output)
    return f'{told}; it said: "{line}"' if line and line not in told else told


def telling_line(last_output: Sequence[str]) -> str:
    """The newest line that sounds like a cause, else the newest; without the process's name."""
    lines = [text for line in last_output if (text := _PROCESS.sub("", line, count=1).strip())]
    causes = [t for t in lines if _SOUNDS_WRONG.search(t) and not _ONLY_FOLLOWS.search(t)]
    best = (causes or lines or [""])[-1]
    return best if len(best) <= MAX_LINE_CHARS else best[: MAX_LINE_CHARS - 1] + "…"
