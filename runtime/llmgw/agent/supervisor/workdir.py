"""The agent's folder: one agent at a time, engines run in it, and its files have fixed places."""

from __future__ import annotations

import os
from pathlib import Path

from llmgw.errors import AlreadyHeld, Invalid
from llmgw.kit import filelocks

_FOLDER_MODE = 0o750
_PREFIX, _SUFFIX = "shard-", ".json"
UNFINISHED = ".tmp"
"""At the end of a state file's name while it is written."""

FETCH_ORDERS = "fetch-orders.json"
"""What was ordered to be fetched ahead, and has not come yet."""


class WorkDir:
    """The open and locked folder; ``close`` lets the next agent in."""

    def __init__(self, folder: str) -> None:
        """Make and lock it; ``AlreadyHeld`` names the agent that has it."""
        self.path = Path(folder).absolute()
        try:
            self.path.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            self._lock = filelocks.open_file(self.path / "agent.lock", mode=0o600)
        except OSError as error:
            raise Invalid(
                f"{self.path} cannot be used ({error.strerror}); "
                "let the agent's user write there, or set supervisor.work_dir"
            ) from error
        self._hold()
        self._clear_unfinished()

    @property
    def output(self) -> Path:
        """Folder with one folder of output files a shard."""
        return self.path / "output"

    def state_file(self, shard_id: str) -> Path:
        """Where a shard's state lies while its processes live."""
        return self.path / f"{_PREFIX}{shard_id}{_SUFFIX}"

    def state_files(self) -> dict[str, Path]:
        """Every state file by the shard that its name tells."""
        return state_files(self.path)

    def close(self) -> None:
        """Let go of the lock."""
        os.close(self._lock)

    def _clear_unfinished(self) -> None:
        """What an agent was writing when it was killed says nothing, and may hold secrets."""
        for path in self.path.glob(f"{_PREFIX}*{_SUFFIX}{UNFINISHED}"):
            path.unlink(missing_ok=True)

    def _hold(self) -> None:
        if not filelocks.take(self._lock):
            holder = filelocks.signed_by(self._lock) or "unknown"
            os.close(self._lock)
            raise AlreadyHeld(
                f"{self.path} is in use by another agent (process {holder}); "
                "stop that one, or set supervisor.work_dir to a folder of its own"
            )
        filelocks.sign(self._lock)


def state_files(folder: Path) -> dict[str, Path]:
    """The state files of an agent's folder, by the shard that each one's name tells."""
    return {
        path.name[len(_PREFIX) : -len(_SUFFIX)]: path
        for path in sorted(folder.glob(f"{_PREFIX}*{_SUFFIX}"))
    }
