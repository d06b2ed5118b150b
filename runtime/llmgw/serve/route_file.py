"""The last route table on disk, from which requests are served at once after a restart.

It may hold keys of endpoints, so only the server's user can read it. Writing goes on beside the
event loop, whole files only, and a newer table replaces one that still waits.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import msgspec

from llmgw.domain.routes import RouteTable
from llmgw.errors import Invalid
from llmgw.kit import logs
from llmgw.kit.tasks import Tasks

_NAME = "routes.json"
_FOLDER_MODE = 0o700

_log = logs.get(__name__)


class RouteFile:
    """``<state_dir>/routes.json``."""

    def __init__(self, state_dir: Path) -> None:
        """Make the folder where it is missing; ``Invalid`` when that may not be."""
        self._path = state_dir / _NAME
        self._tasks = Tasks(owner="route-file")
        self._waiting: RouteTable | None = None
        self._writer: asyncio.Task[None] | None = None
        try:
            state_dir.mkdir(parents=True, exist_ok=True, mode=_FOLDER_MODE)
        except OSError as error:
            raise Invalid(
                f"state_dir: cannot make {state_dir}: {error.strerror}; set another folder"
            ) from error

    def load(self) -> RouteTable | None:
        """The table that was kept last; nothing when there is none or it cannot be understood."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=RouteTable)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("last_routes_unreadable", path=str(self._path), error=str(error))
            return None

    def keep(self, table: RouteTable) -> None:
        """Write the table soon."""
        self._waiting = table
        if self._writer is None or self._writer.done():
            self._writer = self._tasks.spawn("write", self._write_all())

    async def close(self) -> None:
        """Write what still waits."""
        if self._writer is not None:
            await asyncio.wait({self._writer})
        await self._tasks.close()

    async def _write_all(self) -> None:
        try:
            while self._waiting is not None:
                table, self._waiting = self._waiting, None
                await asyncio.to_thread(self._write, table)
        except OSError as error:
            _log.error("routes_not_kept", path=str(self._path), error=str(error))

    def _write(self, table: RouteTable) -> None:
        fd, part = tempfile.mkstemp(dir=self._path.parent, prefix=".routes-")
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.json.encode(table))
            Path(part).replace(self._path)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
