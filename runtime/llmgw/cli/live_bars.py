"""Bars that move on a terminal, and plain lines everywhere else.

``bench_progress`` and ``load_progress`` say what the bars and the lines are about.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from llmgw.cli import plain


class LiveBars:
    """A live view on a stream: ``live`` makes one that ends with its block.

    ``progress`` is what draws, ``None`` where there is no terminal to draw on.
    """

    def __init__(self, *texts: str, stream: IO[str] | None = None) -> None:
        """Draw on ``stream`` (standard error by default, so that a result can be piped).

        ``texts`` are the fields of a task that stand behind its bar.
        """
        self._stream = stream or sys.stderr
        console = Console(file=self._stream, highlight=False, markup=False, emoji=False)
        self.progress = _progress(texts, console) if console.is_terminal else None

    def say(self, text: str) -> None:
        """Write a line, beside the bars where there are any."""
        line = plain.one_line(text)
        if self.progress:
            self.progress.console.print(line)
        else:
            self._stream.write(line + "\n")
            self._stream.flush()


@contextlib.contextmanager
def live(*texts: str, stream: IO[str] | None = None) -> Iterator[LiveBars]:
    """Draw as long as the block runs, and clear the bars after it."""
    bars = LiveBars(*texts, stream=stream)
    with bars.progress or contextlib.nullcontext():
        yield bars


def _progress(texts: tuple[str, ...], console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *(TextColumn(f"{{task.fields[{text}]}}", markup=False) for text in texts),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        refresh_per_second=5,
    )
