"""A ring of bytes in shared memory: what is written on it is there when its writer is killed.

``usage_journal`` writes lines on it as they come and moves them to a disk in batches; the one who
finds a dead writer's slate takes off it what was not moved any more. It is a file below the run
folder, in memory, so that writing waits for no disk; all of it is set aside at once, for a page
that finds no room kills whoever writes to it.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import Final

from llmgw.errors import Invalid

CAPACITY_BYTES: Final = 8 * 1024 * 1024
_HEAD_BYTES: Final = 4096
_MAGIC: Final = 0x6C6C6D6777_534C31
_END: Final = b"\n"
_WORD: Final = struct.Struct("Q")
_WRITTEN: Final = 1
_MOVED: Final = 2
_CAPACITY: Final = 3


class Slate:
    """One writer puts on, one thread of the same process moves off."""

    __slots__ = ("_bytes", "_capacity", "_map", "_words", "_written", "path")

    def __init__(self, path: Path, mapped: mmap.mmap) -> None:
        """Of ``made`` or ``found``."""
        self.path = path
        self._map = mapped
        self._bytes = memoryview(mapped)[_HEAD_BYTES:]
        self._words = memoryview(mapped)[:_HEAD_BYTES].cast("Q")
        self._capacity = int(self._words[_CAPACITY])
        self._written = int(self._words[_WRITTEN])

    @property
    def waiting_bytes(self) -> int:
        """Written and not moved yet."""
        return self._written - self._words[_MOVED]

    def put(self, line: bytes) -> int:
        """Write a line; how many bytes wait now, 0 where there is no room and none is written."""
        begin, length, capacity = self._written, len(line), self._capacity
        end = begin + length
        waiting = end - self._words[_MOVED]
        if waiting > capacity:
            return 0
        at = begin % capacity
        if at + length <= capacity:
            self._bytes[at : at + length] = line
        else:
            first = capacity - at
            self._bytes[at:] = line[:first]
            self._bytes[: length - first] = line[first:]
        # The line counts from here on: whoever is killed before has not written it.
        self._written = self._words[_WRITTEN] = end
        return waiting

    def waiting(self, most: int) -> bytes:
        """The oldest lines that are not moved, as many as are whole in ``most`` bytes."""
        begin, end = int(self._words[_MOVED]), int(self._words[_WRITTEN])
        length = min(end - begin, most)
        at = begin % self._capacity
        first = min(length, self._capacity - at)
        oldest = bytes(self._bytes[at : at + first]) + bytes(self._bytes[: length - first])
        return oldest[: oldest.rfind(_END) + 1]

    def moved(self, count: int) -> None:
        """Take off the oldest bytes: they are safe elsewhere."""
        self._words[_MOVED] += count

    def close(self) -> None:
        """Let go of the memory; the file stays."""
        self._bytes.release()
        self._words.release()
        self._map.close()


def made(path: Path, *, capacity_bytes: int = CAPACITY_BYTES) -> Slate:
    """A fresh slate; ``Invalid`` where the folder does not let us, or has no room."""
    size_bytes = _HEAD_BYTES + capacity_bytes
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, size_bytes)
            mapped = mmap.mmap(fd, size_bytes)
        finally:
            os.close(fd)
    except OSError as error:
        raise Invalid(
            f"cannot make {path} of {size_bytes >> 20} MiB, on which usage is noted: "
            f"{error.strerror}; run_dir needs that much room for each worker"
        ) from error
    words = memoryview(mapped)[:_HEAD_BYTES].cast("Q")
    words[_CAPACITY] = capacity_bytes
    words[0] = _MAGIC
    words.release()
    return Slate(path, mapped)


def found(path: Path) -> Slate | None:
    """The slate that somebody left; nothing where it is gone or was never finished."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        size_bytes = os.fstat(fd).st_size
        if size_bytes <= _HEAD_BYTES:
            return None
        mapped = mmap.mmap(fd, size_bytes)
    finally:
        os.close(fd)
    (magic,) = _WORD.unpack_from(mapped, 0)
    (capacity,) = _WORD.unpack_from(mapped, _CAPACITY * _WORD.size)
    if magic != _MAGIC or capacity != size_bytes - _HEAD_BYTES:
        mapped.close()
        return None
    return Slate(path, mapped)
