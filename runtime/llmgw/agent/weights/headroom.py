"""Makes sure that a download fits its disk, beside the others that are under way there.

``transfers`` asks before the first byte and again as bytes come, since others write as well.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from llmgw.errors import Exhausted
from llmgw.kit import units


class Headroom:
    """What downloads of this process still need, by filesystem."""

    def __init__(self, *, keep_free_bytes: int) -> None:
        """That much stays free: a full disk stops more than a download."""
        self._keep_free_bytes = keep_free_bytes
        self._promised: dict[Path, tuple[int, int]] = {}

    def check(self, target: Path, *, missing_bytes: int) -> None:
        """Promise the space that ``target`` still needs; ``Exhausted`` says why it is not there."""
        folder = target.parent
        device = folder.stat().st_dev
        others = sum(
            needed_bytes
            for other, (there, needed_bytes) in self._promised.items()
            if there == device and other != target
        )
        free_bytes = shutil.disk_usage(folder).free
        if missing_bytes + others + self._keep_free_bytes > free_bytes:
            self.forget(target)
            raise Exhausted(
                f"{target.name} needs {_size(missing_bytes)} more and the filesystem "
                f"{mount_point(folder)} has {_size(free_bytes)} free"
                + (f", of which other downloads need {_size(others)}" if others else "")
                + (f"; {_size(self._keep_free_bytes)} are kept" if self._keep_free_bytes else "")
                + "; make room there or set weights_dir to a larger disk"
            )
        self._promised[target] = (device, missing_bytes)

    def forget(self, target: Path) -> None:
        """A download has ended, however it did."""
        self._promised.pop(target, None)


def mount_point(folder: Path) -> Path:
    """Where the filesystem of a folder is mounted, which is the name that ``df`` shows."""
    place = Path(os.path.realpath(folder))
    while not place.is_mount():
        place = place.parent
    return place


def _size(size_bytes: int) -> str:
    if size_bytes < units.SIZES_BYTES["mib"]:
        return f"{size_bytes} bytes"
    unit = "gib" if size_bytes >= units.SIZES_BYTES["gib"] else "mib"
    return f"{size_bytes / units.SIZES_BYTES[unit]:.1f} {'GiB' if unit == 'gib' else 'MiB'}"
