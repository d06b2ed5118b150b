"""Shows how far a measurement is: a pulse on a terminal, and a line for each finished level."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import IO, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from llmgw.bench.run import Judged
from llmgw.cli import bench_showing, plain


class BenchProgress:
    """A live view on ``stream``; use as a context manager."""

    def __init__(self, *, stream: IO[str] | None = None) -> None:
        """Draw on ``stream`` (standard error by default, so that a result can be piped)."""
        self._stream = stream or sys.stderr
        console = Console(file=self._stream, highlight=False, markup=False, emoji=False)
        self._bars = _bars(console) if console.is_terminal else None

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self._bars:
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        """Clear the bar."""
        if self._bars:
            self._bars.stop()

    def begin(self, concurrency: int) -> None:
        """A level begins."""
        if self._bars:
            for task in self._bars.task_ids:
                self._bars.remove_task(task)
            self._bars.add_task(f"{concurrency} at once", total=None)

    def level(self, one: Judged) -> None:
        """A level was judged."""
        line = plain.one_line(bench_showing.level_line(one))
        if self._bars:
            self._bars.console.print(line)
        else:
            self._stream.write(line + "\n")
            self._stream.flush()


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        refresh_per_second=5,
    )
