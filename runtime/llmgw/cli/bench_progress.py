"""Shows how far a measurement is: a pulse on a terminal, and a line for each finished level."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import IO, Self

from llmgw.bench.run import Judged
from llmgw.cli import bench_showing, live_bars
from llmgw.cli.live_bars import LiveBars


class BenchProgress:
    """See the module."""

    def __init__(self, bars: LiveBars) -> None:
        self._bars = bars

    @classmethod
    @contextlib.contextmanager
    def shown(cls, *, stream: IO[str] | None = None) -> Iterator[Self]:
        """Show it as long as the block runs."""
        with live_bars.live(stream=stream) as bars:
            yield cls(bars)

    def begin(self, concurrency: int) -> None:
        """A level begins."""
        if progress := self._bars.progress:
            for task in progress.task_ids:
                progress.remove_task(task)
            progress.add_task(f"{concurrency} at once", total=None)

    def level(self, one: Judged) -> None:
        """A level was judged."""
        self._bars.say(bench_showing.level_line(one))
