"""The agent's own newest log lines, so that an operator can read them from the control plane.

``serve`` adds one to the log (``logs.add_handler``) and hands it to ``orders``.
"""

from __future__ import annotations

import logging
from collections import deque

LINES = 2000


class LogRing(logging.Handler):
    """Keeps the newest lines; a record of several lines counts as several."""

    def __init__(self, *, lines: int = LINES) -> None:
        """Keep at most ``lines``, the oldest go first."""
        super().__init__()
        self._lines: deque[str] = deque(maxlen=lines)

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``."""
        self._lines.extend(self.format(record).rstrip("\n").split("\n"))

    def tail(self, lines: int) -> tuple[str, ...]:
        """The newest lines, oldest first; zero or less means all."""
        kept = tuple(self._lines)
        return kept[-lines:] if lines > 0 else kept
