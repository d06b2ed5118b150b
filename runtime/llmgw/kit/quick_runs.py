"""Runs a foreign program for one answer: bounded in time and in bytes, with nothing left of it.

Discovery, the check of engines and their installation run programs through here. One may print
without end, leave children that hold its output open, or be a wrapper around the one that hangs;
its session ends with it. Blocks, so it is called in a thread.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_READ_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """How it ended and what it printed; without a code it was ended for printing too much."""

    code: int | None
    output: str
    errors: str


def run(
    words: Sequence[str],
    *,
    timeout_s: float,
    most_bytes: int,
    environ: Mapping[str, str] | None = None,
    folder: Path = Path("/"),
    may_outlive: bool = False,
) -> Answer:
    """Run it to its end; ``OSError`` where it cannot be started, ``TimeoutError`` after the bound.

    What its children still print once it has ended is not waited for. A process of ours that ends
    in an orderly way meanwhile takes it along, unless it ``may_outlive`` us.
    """
    with subprocess.Popen(
        list(words),
        cwd=folder,
        env=None if environ is None else dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        # Threads that block here are left behind by the end of the interpreter, so this does it.
        end = functools.partial(_end, process.pid)
        if not may_outlive:
            atexit.register(end)
        pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
        heard = _Heard({pipe: bytearray() for pipe in pipes}, most_bytes=most_bytes)
        try:
            with _pidfd(process.pid) as ended:
                is_whole = heard.listen(ended, give_up_at=time.monotonic() + timeout_s)
        finally:
            # It is not reaped yet, so the group cannot be a stranger's.
            _end(process.pid)
            atexit.unregister(end)
        code = process.wait()
    output, errors = heard.texts()
    return Answer(code if is_whole else None, output, errors)


class _Heard:
    """What came through each pipe so far."""

    def __init__(self, came: Mapping[IO[bytes], bytearray], *, most_bytes: int) -> None:
        self._came = came
        self._most_bytes = most_bytes

    def texts(self) -> list[str]:
        """One text a pipe."""
        whole = (bytes(text[: self._most_bytes]) for text in self._came.values())
        return [text.decode(errors="replace") for text in whole]

    def listen(self, ended: int, *, give_up_at: float) -> bool:
        """Until ``ended`` is readable and all is read; false once it is too much."""
        has_ended = False
        with selectors.DefaultSelector() as looks:
            looks.register(ended, selectors.EVENT_READ)
            for pipe in self._came:
                os.set_blocking(pipe.fileno(), False)
                looks.register(pipe, selectors.EVENT_READ)
            while not has_ended:
                ready = looks.select(timeout=max(0.0, give_up_at - time.monotonic()))
                has_ended = any(key.fileobj == ended for key, _ in ready)
                if not has_ended and time.monotonic() > give_up_at:
                    raise TimeoutError
                for pipe, text in self._came.items():
                    if not self._read(pipe, text) and pipe in looks.get_map():
                        looks.unregister(pipe)
                if any(len(text) > self._most_bytes for text in self._came.values()):
                    return False
        return True

    def _read(self, pipe: IO[bytes], text: bytearray) -> bool:
        """All that is there now, up to the bound; whether more may come."""
        while len(text) <= self._most_bytes:
            try:
                block = os.read(pipe.fileno(), _READ_BYTES)
            except BlockingIOError:
                return True
            if not block:
                return False
            text += block
        return True


def _end(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


@contextlib.contextmanager
def _pidfd(pid: int) -> Iterator[int]:
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
