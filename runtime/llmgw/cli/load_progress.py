"""Shows how far a model's start is: bytes of its weights, then the engine that loads them.

``ctl`` and ``up`` hand in the replicas as often as they look; this draws bars on a terminal and
writes plain lines, only where something changed, everywhere else.
"""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Self
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from llmgw.cli import figures, plain
from llmgw.domain.replicas import ShardState
from llmgw.domain.views import ReplicaView, ShardView

_STEPS = 10
_UNMEASURED_STEP_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Stage:
    """What one shard is busy with; bytes are absent when it is not fetching or they are unknown."""

    shard_id: str
    text: str
    done_bytes: int | None = None
    total_bytes: int | None = None

    @property
    def amount(self) -> str:
        """``120.0 MiB of 270.3 MiB (44 %)``, or how much there is so far; empty without a fetch."""
        if self.done_bytes is None:
            return ""
        if not self.total_bytes:
            return f"{figures.size(self.done_bytes)} so far"
        percent = min(100, 100 * self.done_bytes // self.total_bytes)
        return f"{figures.size(self.done_bytes)} of {figures.size(self.total_bytes)} ({percent} %)"

    @property
    def line(self) -> str:
        """The stage as one plain line."""
        return f"{self.text}: {self.amount}" if self.amount else self.text


def stages(replica: ReplicaView) -> tuple[Stage, ...]:
    """One stage for each shard that is on its way up; none for a replica that serves."""
    return tuple(_stage(s, model=replica.model) for s in replica.shards if s.state in _WORDS)


_WORDS = {
    ShardState.PENDING: "waiting to start",
    ShardState.STARTING: "starting an engine for",
    ShardState.LOADING: "loading",
}


def _stage(shard: ShardView, *, model: str) -> Stage:
    if shard.fetch is None:
        text = f"{shard.node_id} is {_WORDS[shard.state]} {model}"
        return Stage(shard_id=shard.shard_id, text=text)
    name = posixpath.basename(urlsplit(shard.fetch.source).path) or shard.fetch.source
    return Stage(
        shard_id=shard.shard_id,
        text=f"{shard.node_id} is fetching {name}",
        done_bytes=shard.fetch.done_bytes,
        total_bytes=shard.fetch.total_bytes,
    )


class LoadProgress:
    """A live view of stages on ``stream``; use as a context manager and ``show`` at every look."""

    def __init__(self, *, stream: IO[str] | None = None) -> None:
        """Draw on ``stream`` (standard error by default, so that a result can be piped)."""
        self._stream = stream or sys.stderr
        console = Console(file=self._stream, highlight=False, markup=False, emoji=False)
        self._bars = _Bars(console) if console.is_terminal else None
        self._said: dict[str, tuple[str, int]] = {}

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
        """Clear the bars."""
        if self._bars:
            self._bars.stop()

    def show(self, replicas: Sequence[ReplicaView]) -> None:
        """Draw the present stages of these replicas."""
        present = [stage for replica in replicas for stage in stages(replica)]
        if self._bars:
            self._bars.draw(present)
            return
        for stage in present:
            self._say_once(stage.shard_id, stage.line, mark=(stage.text, _step(stage)))

    def note(self, text: str) -> None:
        """Say something beside the bars, once in a row."""
        self._say_once("", text, mark=(text, 0))

    def _say_once(self, subject: str, line: str, *, mark: tuple[str, int]) -> None:
        if self._said.get(subject) == mark:
            return
        self._said[subject] = mark
        if self._bars:
            self._bars.say(plain.one_line(line))
        else:
            self._stream.write(plain.one_line(line) + "\n")
            self._stream.flush()


def _step(stage: Stage) -> int:
    """Rises each time that a further plain line is worth it: every tenth, or every 256 MiB."""
    if stage.done_bytes is None:
        return 0
    if not stage.total_bytes:
        return stage.done_bytes // _UNMEASURED_STEP_BYTES
    return _STEPS * stage.done_bytes // stage.total_bytes


class _Bars:
    """One bar a shard; a stage without bytes pulses."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[amount]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._tasks: dict[tuple[str, str], TaskID] = {}

    def start(self) -> None:
        self._progress.start()

    def stop(self) -> None:
        self._progress.stop()

    def say(self, line: str) -> None:
        self._progress.console.print(line)

    def draw(self, present: Sequence[Stage]) -> None:
        keys = {(stage.shard_id, stage.text) for stage in present}
        for gone in self._tasks.keys() - keys:
            self._progress.remove_task(self._tasks.pop(gone))
        for stage in present:
            self._draw_one(stage)

    def _draw_one(self, stage: Stage) -> None:
        key = (stage.shard_id, stage.text)
        done, total, amount = stage.done_bytes or 0, stage.total_bytes, stage.amount
        if key in self._tasks:
            self._progress.update(self._tasks[key], completed=done, total=total, amount=amount)
            return
        text = plain.one_line(stage.text)
        self._tasks[key] = self._progress.add_task(text, completed=done, total=total, amount=amount)
