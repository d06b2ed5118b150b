"""What an installer leaves for others to see: that it is at work, how far, and how it ended.

The agent reads it on the way to the control plane, so that a node's engines are visible there while
they are installed, and the reason when they are not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from llmgw.agent.install import documents
from llmgw.agent.install.builds import CURRENT, MARKER
from llmgw.domain.nodes import EngineInstall, InstallState
from llmgw.errors import AlreadyHeld, Invalid
from llmgw.kit import filelocks

_STATUS = ".status.json"
_LOCK = ".install.lock"
_LOCK_TRIES = 5
_LOCK_PAUSE_S = 0.1
_FOLDER_MODE = 0o755


class Notices:
    """The notices below one root folder of engines."""

    def __init__(self, root: Path) -> None:
        """Nothing is read or made yet."""
        self._root = root

    @contextmanager
    def installing(self, engine: str) -> Iterator[None]:
        """Hold an engine's folder alone; ``AlreadyHeld`` while another installer does."""
        lock = self._open_lock(engine)
        try:
            for _ in range(_LOCK_TRIES):
                if filelocks.take(lock):
                    break
                time.sleep(_LOCK_PAUSE_S)
            else:
                raise AlreadyHeld(f"another installation of {engine} runs; wait for its end")
            yield
        finally:
            os.close(lock)

    def is_installing(self, engine: str) -> bool:
        """Whether an installer is at work on it."""
        try:
            lock = os.open(self._root / engine / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return not filelocks.take(lock, is_shared=True)
        finally:
            os.close(lock)

    def note(self, status: EngineInstall) -> None:
        """Leave word of how far an installation is, or how it ended."""
        documents.write(self._root / status.engine / _STATUS, asdict(status))

    def noted(self, engine: str) -> EngineInstall | None:
        """The last word; of an installer that died without one, that it was cut off."""
        said = self._read(engine)
        if not _is_under_way(said) or self.is_installing(engine):
            return said
        said = self._read(engine)  # it may have ended between the two looks
        if said is None or not _is_under_way(said):
            return said
        cut_off = f"the installation was cut off while {said.detail}; install it again"
        return replace(said, state=InstallState.FAILED, detail=cut_off)

    def signature(self) -> tuple[tuple[str, int], ...]:
        """Differs whenever an installation has written something."""
        patterns = (f"*/*/{MARKER}", f"*/{_STATUS}", f"*/{CURRENT}")
        paths = (path for pattern in patterns for path in self._root.glob(pattern))
        return tuple(sorted((str(path), _changed_at(path)) for path in paths))

    def _read(self, engine: str) -> EngineInstall | None:
        fields = documents.read(self._root / engine / _STATUS)
        if fields is None:
            return None
        try:
            return EngineInstall(**{**fields, "state": InstallState(fields["state"])})
        except (KeyError, TypeError, ValueError):
            return None

    def _open_lock(self, engine: str) -> int:
        folder = self._root / engine
        try:
            folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            return filelocks.open_file(folder / _LOCK, mode=0o644)
        except OSError as error:
            raise Invalid(
                f"{folder} cannot be used: {error.strerror}; run as root, or give another --dir"
            ) from error


def _is_under_way(said: EngineInstall | None) -> bool:
    return said is not None and said.state is InstallState.INSTALLING


def _changed_at(path: Path) -> int:
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return 0
