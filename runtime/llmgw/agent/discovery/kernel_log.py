"""What the kernel has said, for those who look for a driver's complaints in it.

``/dev/kmsg`` hands out one record a read, from the oldest that it still has, and needs the right to
read it: root, or ``kernel.dmesg_restrict=0``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_RECORD_BYTES = 8192
"""The kernel refuses a read that is smaller than a record."""
_ESCAPED = re.compile(r"\\x([0-9a-fA-F]{2})")


class KernelLog:
    """Messages of the kernel, each handed out once."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened before the first look."""
        self._path = path
        self._descriptor: int | None = None

    def news(self) -> tuple[str, ...]:
        """Messages since the last look, all that are left at the first; ``OSError`` if refused."""
        if self._descriptor is None:
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags)
        return tuple(self._messages(self._descriptor))

    def close(self) -> None:
        """Let the device go; the next look begins anew."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @staticmethod
    def _messages(descriptor: int) -> Iterator[str]:
        while True:
            try:
                data = os.read(descriptor, _RECORD_BYTES)
            except BlockingIOError:
                return
            except BrokenPipeError:  # the record was overwritten before it was read
                continue
            if not data:
                return
            yield from _texts(data.decode("utf-8", "replace"))


def _texts(records: str) -> Iterator[str]:
    """The message of ``6,1234,5678,-;message``; lines that begin with a blank name its device."""
    for line in records.splitlines():
        head, semicolon, message = line.partition(";")
        if semicolon and head[:1].isdecimal():
            yield _ESCAPED.sub(lambda found: chr(int(found[1], 16)), message)
