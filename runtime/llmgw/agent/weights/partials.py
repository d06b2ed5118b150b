"""A download under way on disk: the ``.part`` file, the validator beside it, and who may write it.

The lock lies on the part file itself, so it ends with the process and leaves nothing behind.
``transfers`` appends to it; ``fetching`` claims and finishes it.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from llmgw.kit import filelocks

PART_SUFFIX = ".part"
_VALIDATOR_SUFFIX = ".part.json"
_FILE_MODE = 0o644


class Partial:
    """A part file that is open and locked for us alone.

    Blocks are written by threads whose caller may be cancelled: ``close`` waits for a write under
    way, and one that comes later does nothing.
    """

    def __init__(self, target: Path, *, descriptor: int) -> None:
        """Use ``claim``."""
        self.target = target
        self._descriptor = descriptor
        self._is_closed = False
        self._mutex = threading.Lock()
        self._validator_path = beside(target, _VALIDATOR_SUFFIX)
        self.size_bytes = os.fstat(descriptor).st_size
        self.validator = _read_validator(self._validator_path) if self.size_bytes else ""

    def restart(self, *, validator: str) -> None:
        """Throw away what came; ``validator`` names the content that comes now, if any does."""
        os.ftruncate(self._descriptor, 0)
        self.size_bytes = 0
        self.validator = validator
        if validator:
            self._validator_path.write_text(json.dumps({"validator": validator}), encoding="utf-8")
        else:
            self._validator_path.unlink(missing_ok=True)

    def append(self, block: bytes) -> None:
        """Write a block at the end."""
        with self._mutex:
            left = memoryview(b"" if self._is_closed else block)
            while left:
                written = os.write(self._descriptor, left)
                left = left[written:]
                self.size_bytes += written

    def finish(self) -> None:
        """Give the file its real name; it is whole on disk before that."""
        with self._mutex:
            if not self._is_closed:
                os.fsync(self._descriptor)
                beside(self.target, PART_SUFFIX).rename(self.target)
                self._validator_path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove the part: its file is not wanted any more."""
        beside(self.target, PART_SUFFIX).unlink(missing_ok=True)
        self._validator_path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the lock; the part stays for the next try."""
        with self._mutex:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._descriptor)


def claim(target: Path) -> Partial | None:
    """Open and lock the part of ``target``, or nothing while another process writes it."""
    part = beside(target, PART_SUFFIX)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(part, flags, _FILE_MODE)
    try:
        if filelocks.take(descriptor) and _is_still(part, descriptor):
            return Partial(target, descriptor=descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def size_bytes(target: Path) -> int:
    """How much of ``target`` has come so far, whoever writes it."""
    try:
        return beside(target, PART_SUFFIX).stat().st_size
    except FileNotFoundError:
        return 0


def beside(target: Path, suffix: str) -> Path:
    """The file of that ending next to ``target``."""
    return target.with_name(target.name + suffix)


def _is_still(part: Path, descriptor: int) -> bool:
    """Whether the locked file still has the part's name: its last owner may have finished it."""
    try:
        return os.path.samestat(os.fstat(descriptor), part.stat())
    except FileNotFoundError:
        return False


def _read_validator(path: Path) -> str:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    validator = stored.get("validator") if isinstance(stored, dict) else None
    return validator if isinstance(validator, str) else ""
