"""Fetches one file of a release into a folder, with room made sure of and progress told.

``archives`` and ``venvs`` call it; where the file comes from is the release's business.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

from llmgw.agent.install.releases import Release
from llmgw.errors import Exhausted, Invalid
from llmgw.kit.clock import Clock

Say = Callable[[str], None]

_MB = 1024 * 1024
_SAY_EVERY_S = 5.0


def fetch(release: Release, asset: str, *, target: Path, clock: Clock, say: Say) -> str:
    """Write the file and return its digest; ``Exhausted`` when the disk is too small for it."""
    progress = _Progress(asset, folder=target.parent, clock=clock, say=say)
    try:
        return release.fetch(asset, target=target, on_bytes=progress)
    except OSError as error:
        raise on_disk(error, target.parent) from error


def on_disk(error: OSError, folder: Path) -> Exhausted | Invalid:
    """What an error of the disk means."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return Exhausted(f"{folder} is full; make room there or give another --dir")
    return Invalid(f"{folder} cannot be written: {error.strerror or error}")


class _Progress:
    """Tells how far a download is, at most every few seconds."""

    def __init__(self, asset: str, *, folder: Path, clock: Clock, say: Say) -> None:
        self._asset = asset
        self._folder = folder
        self._clock = clock
        self._say = say
        self._said_at: float | None = None

    def __call__(self, done: int, total: int | None) -> None:
        if self._said_at is None:
            self._check_room(total)
            size = "" if total is None else f" ({total // _MB} MB)"
            self._tell(f"downloading {self._asset}{size}")
        elif self._clock.monotonic() - self._said_at >= _SAY_EVERY_S:
            of = "" if total is None else f" of {total // _MB}"
            self._tell(f"downloading {self._asset}: {done // _MB}{of} MB")

    def _tell(self, text: str) -> None:
        self._said_at = self._clock.monotonic()
        self._say(text)

    def _check_room(self, total: int | None) -> None:
        """The archive and what it holds must fit, which is about three times its size."""
        free = shutil.disk_usage(self._folder).free
        if total is not None and free < 3 * total:
            raise Exhausted(
                f"{self._folder} has {free // _MB} MB free, and {self._asset} needs about "
                f"{3 * total // _MB} MB; make room there or give another --dir"
            )
