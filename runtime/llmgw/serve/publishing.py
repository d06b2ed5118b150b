"""One worker of a host at a time scrapes for all: the one that holds ``publisher.lock``.

The lock ends with its process, so another worker follows at its next question; no server is needed.
It lies beside the board: workers of another layout scrape for themselves.
"""

from __future__ import annotations

import os
from pathlib import Path

from llmgw.errors import Invalid
from llmgw.kit import filelocks, logs

_log = logs.get(__name__)


class PublisherLock:
    """Whether this worker is the one; fits ``gateway.server.Place.is_publisher`` when called."""

    def __init__(self, folder: Path) -> None:
        """Beside the board; locks nothing yet; raises ``Invalid`` when it cannot be opened."""
        path = folder / "publisher.lock"
        try:
            self._fd = filelocks.open_file(path, mode=0o600)
        except OSError as error:
            raise Invalid(f"cannot open {path}: {error.strerror}") from error
        self._is_mine = False

    def __call__(self) -> bool:
        """Be it if nobody else is."""
        if not self._is_mine and self._fd >= 0 and filelocks.take(self._fd):
            self._is_mine = True
            filelocks.sign(self._fd)
            _log.info("scrapes_for_all", worker=os.getpid())
        return self._is_mine

    def release(self) -> None:
        """Let another worker be it; this one never is again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._is_mine = False
