"""A download under way on disk: the ``.part`` file, what is known of its content, its digest.

``transfers`` writes it; ``deliveries`` checks and finishes it. Who may write it is decided before
(``holds``): each block goes to its own place in the file, so that a writer which was given up and
wakes once more changes nothing.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from llmgw.agent.weights.digests import Digest, Hashing
from llmgw.agent.weights.holds import Hold

PART_SUFFIX = ".part"
_NOTE_SUFFIX = ".part.json"
_FILE_MODE = 0o644
_FOLDER_MODE = 0o755
_READ_BYTES = 4 * 1024 * 1024


class Partial:
    """A part file that is open for us alone.

    Blocks are written by threads whose caller may be cancelled: ``close`` waits for a write under
    way, and one that comes later does nothing.
    """

    def __init__(self, target: Path, *, hold: Hold) -> None:
        """Open what came so far, or begin."""
        self.target = target
        self._hold = hold
        self._is_closed = False
        self._mutex = threading.Lock()
        self._note_path = beside(target, _NOTE_SUFFIX)
        target.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        self._descriptor = _open(beside(target, PART_SUFFIX))
        self.size_bytes = os.fstat(self._descriptor).st_size
        note = _read_note(self._note_path) if self.size_bytes else {}
        self.validator = note.get("validator", "")
        self.noted_digest = note.get("digest", "")
        self.was_resumed = self.size_bytes > 0
        self._hashing: Hashing | None = None

    def restart(self, *, validator: str, digest: Digest | None) -> None:
        """Throw away what came; the arguments name the content that comes now, where one is known.

        A new file takes the place of the old one: whoever still writes that one harms nobody.
        """
        with self._mutex:
            if self._is_closed:
                return
            self._hold.check()
            beside(self.target, PART_SUFFIX).unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = _open(beside(self.target, PART_SUFFIX))
            self.size_bytes, self.was_resumed, self._hashing = 0, False, None
            self.validator, self.noted_digest = validator, str(digest or "")
            if self.validator or self.noted_digest:
                note = {"validator": self.validator, "digest": self.noted_digest}
                self._note_path.write_text(json.dumps(note), encoding="utf-8")
            else:
                self._note_path.unlink(missing_ok=True)

    def expect(self, digest: Digest, *, size_bytes: int | None) -> None:
        """Have the content compared with a digest; reads what came before, which takes time."""
        with self._mutex:
            if self._is_closed or (self._hashing and self._hashing.wanted == digest):
                return
            hashing, at = Hashing(digest, size_bytes=size_bytes), 0
            while at < self.size_bytes:
                block = os.pread(self._descriptor, _READ_BYTES, at)
                if not block:
                    break
                hashing.update(block)
                at += len(block)
            self._hashing = hashing

    def append(self, block: bytes) -> None:
        """Write a block where the last one ended."""
        with self._mutex:
            if self._is_closed or not block:
                return
            self._hold.check()
            left = memoryview(block)
            while left:
                written = os.pwrite(self._descriptor, left, self.size_bytes)
                if self._hashing is not None:
                    self._hashing.update(left[:written])
                left = left[written:]
                self.size_bytes += written

    def digest(self) -> Digest | None:
        """What came, in the kind of digest that is expected; nothing when none is."""
        return self._hashing.result() if self._hashing else None

    @property
    def wanted(self) -> Digest | None:
        """The digest that is expected."""
        return self._hashing.wanted if self._hashing else None

    def finish(self) -> None:
        """Give the file its real name; it is whole on disk before that."""
        with self._mutex:
            if not self._is_closed:
                os.fsync(self._descriptor)
                self._hold.check()
                beside(self.target, PART_SUFFIX).replace(self.target)
                self._note_path.unlink(missing_ok=True)
                sync_folder(self.target.parent)

    def close(self) -> None:
        """Let go of the file; the part stays for the next try."""
        with self._mutex:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._descriptor)


def discard(target: Path) -> None:
    """Remove the part of a file that is not wanted any more."""
    for suffix in (PART_SUFFIX, _NOTE_SUFFIX):
        beside(target, suffix).unlink(missing_ok=True)


def reopen(target: Path, *, validator: str, digest: str) -> None:
    """Make a finished file a part again, to have it compared, or its origin asked."""
    target.replace(beside(target, PART_SUFFIX))
    note = {"validator": validator, "digest": digest}
    beside(target, _NOTE_SUFFIX).write_text(json.dumps(note), encoding="utf-8")


def size_bytes(target: Path) -> int:
    """How much of ``target`` has come so far, whoever writes it."""
    try:
        return beside(target, PART_SUFFIX).stat().st_size
    except OSError:
        return 0


def beside(target: Path, suffix: str) -> Path:
    """The file of that ending next to ``target``."""
    return target.with_name(target.name + suffix)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open(part: Path) -> int:
    # A link in the place of a part would have us write elsewhere.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(part, flags, _FILE_MODE)


def _read_note(path: Path) -> dict[str, str]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(stored, dict):
        return {}
    return {str(key): value for key, value in stored.items() if isinstance(value, str)}
