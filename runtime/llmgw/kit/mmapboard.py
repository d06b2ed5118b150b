"""64-bit words that several processes of a host see: each word has one writer, nobody locks.

A word is read and written whole: an aligned access through ``memoryview.cast("Q")`` is one load or
store of the machine, which ``struct`` in a fixed byte order does not promise.
What the words mean is the caller's to say.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from pathlib import Path

from llmgw.errors import Invalid

_WORD_BYTES = 8
_MODE = 0o600
_REAL = struct.Struct("d")
_WORD = struct.Struct("Q")


def in_memory(count: int) -> memoryview:
    """``count`` words of this process alone, all 0."""
    return memoryview(bytearray(count * _WORD_BYTES)).cast("Q")


def created(path: Path, *, count: int) -> memoryview:
    """``count`` words of a fresh file, all 0; a file that lay there goes on for who has it open.

    It appears whole: nobody can attach to a half of it.  All of it is set aside on the disk, for a
    page that finds the disk full kills whoever writes to it.  Raises ``Invalid`` where the folder
    does not let us.
    """
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)
        try:
            os.posix_fallocate(fd, 0, count * _WORD_BYTES)
            words = _mapped(fd, count)
        finally:
            os.close(fd)
        fresh.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise Invalid(f"cannot make the board {path}: {error.strerror}") from error
    return words


def attached(path: Path, *, count: int) -> memoryview:
    """The words of a file that another process made; ``Invalid`` where it is absent or cut."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise Invalid(f"cannot open the board {path}: {error.strerror}") from error
    try:
        size_bytes = os.fstat(fd).st_size
        if size_bytes != count * _WORD_BYTES:
            raise Invalid(f"the board {path} has {size_bytes} bytes, not {count * _WORD_BYTES}")
        return _mapped(fd, count)
    finally:
        os.close(fd)


def of_real(value: float) -> int:
    """A floating-point number as a word."""
    (word,) = _WORD.unpack(_REAL.pack(value))
    return int(word)


def to_real(word: int) -> float:
    """The number that ``of_real`` made a word of."""
    (value,) = _REAL.unpack(_WORD.pack(word))
    return float(value)


def _mapped(fd: int, count: int) -> memoryview:
    """Its pages live as long as the view or a slice of it."""
    return memoryview(mmap.mmap(fd, count * _WORD_BYTES)).cast("Q")
