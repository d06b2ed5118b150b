"""Which sources were ordered ahead, kept on disk, so that the next agent goes on fetching them.

``fetching`` notes an order before it begins, and drops it once the download has come, has failed or
was called off. A file that cannot be read or written costs a restart the order, and nothing else.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from llmgw.kit import logs

_FILE_MODE = 0o600
"""An address may hold a secret."""

_log = logs.get(__name__)


class FetchOrders:
    """The sources that somebody wants here; in memory alone without a file."""

    def __init__(self, path: Path | None = None) -> None:
        """Read what an earlier agent left."""
        self._path = path
        self._sources = _read(path) if path is not None else {}

    def all(self) -> tuple[str, ...]:
        """In the order in which they came."""
        return tuple(self._sources)

    def add(self, source: str) -> None:
        """Somebody wants it; again is the same."""
        if source not in self._sources:
            self._sources[source] = None
            self._save()

    def drop(self, source: str) -> None:
        """Nobody has to fetch it for that any more."""
        if source in self._sources:
            del self._sources[source]
            self._save()

    def _save(self) -> None:
        if self._path is None:
            return
        fresh = self._path.with_name(f"{self._path.name}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(fresh, flags, _FILE_MODE), "w", encoding="utf-8") as file:
                json.dump(list(self._sources), file)
            fresh.replace(self._path)
        except OSError as error:
            _log.warning("fetch_orders_not_saved", path=str(self._path), error=str(error))


def _read(path: Path) -> dict[str, None]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("fetch_orders_not_read", path=str(path), error=str(error))
        return {}
    found = stored if isinstance(stored, list) else []
    return {source: None for source in found if isinstance(source, str)}
