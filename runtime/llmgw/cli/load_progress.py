"""Shows how far a model's start is: bytes of its weights, then the engine that loads them.

``ctl`` and ``up`` hand in the replicas as often as they look; this draws bars on a terminal and
writes plain lines, only where something changed, everywhere else.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Self
from urllib.parse import urlsplit

from rich.progress import Progress, TaskID

from llmgw.cli import figures, live_bars, plain
from llmgw.cli.live_bars import LiveBars
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
    bytes_per_s: float | None = None
    eta_s: float | None = None

    @property
    def amount(self) -> str:
        """``120.0 MiB of 270.3 MiB (44 %), 30.1 MiB/s, 5s left``; empty without a fetch.

        What is not known is not said.
        """
        if self.done_bytes is None:
            return ""
        rate = f"{figures.size(int(self.bytes_per_s))}/s" if self.bytes_per_s else None
        left = None if self.eta_s is None else f"{figures.age(self.eta_s)} left"
        return ", ".join(filter(None, (self._share(self.done_bytes), rate, left)))

    def _share(self, done_bytes: int) -> str:
        if not self.total_bytes:
            return f"{figures.size(done_bytes)} so far"
        percent = min(100, 100 * done_bytes // self.total_bytes)
        return f"{figures.size(done_bytes)} of {figures.size(self.total_bytes)} ({percent} %)"

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
        bytes_per_s=shard.fetch.bytes_per_s,
        eta_s=shard.fetch.eta_s,
    )


class LoadProgress:
    """A live view of stages; ``show`` at every look."""

    def __init__(self, bars: LiveBars) -> None:
        self._bars = bars
        self._tasks: dict[tuple[str, str], TaskID] = {}
        self._said: dict[str, tuple[str, int]] = {}

    @classmethod
    @contextlib.contextmanager
    def shown(cls, *, stream: IO[str] | None = None) -> Iterator[Self]:
        """Show it as long as the block runs."""
        with live_bars.live("amount", stream=stream) as bars:
            yield cls(bars)

    def show(self, replicas: Sequence[ReplicaView]) -> None:
        """Draw the present stages of these replicas."""
        present = [stage for replica in replicas for stage in stages(replica)]
        if progress := self._bars.progress:
            self._draw(progress, present)
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
        self._bars.say(line)

    def _draw(self, progress: Progress, present: Sequence[Stage]) -> None:
        """One bar a shard; a stage without bytes pulses."""
        keys = {(stage.shard_id, stage.text) for stage in present}
        for gone in self._tasks.keys() - keys:
            progress.remove_task(self._tasks.pop(gone))
        for stage in present:
            self._draw_one(progress, stage)

    def _draw_one(self, progress: Progress, stage: Stage) -> None:
        key = (stage.shard_id, stage.text)
        done, total, amount = stage.done_bytes or 0, stage.total_bytes, stage.amount
        if key in self._tasks:
            progress.update(self._tasks[key], completed=done, total=total, amount=amount)
            return
        text = plain.one_line(stage.text)
        self._tasks[key] = progress.add_task(text, completed=done, total=total, amount=amount)


def _step(stage: Stage) -> int:
    """Rises each time that a further plain line is worth it: every tenth, or every 256 MiB."""
    if stage.done_bytes is None:
        return 0
    if not stage.total_bytes:
        return stage.done_bytes // _UNMEASURED_STEP_BYTES
    return _STEPS * stage.done_bytes // stage.total_bytes
