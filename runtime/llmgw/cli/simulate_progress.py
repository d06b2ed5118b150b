"""Shows a simulated fleet while it runs: a map with a mark for each node, and what befalls them.

On a terminal the map is drawn anew at every look; everywhere else there are plain lines, one a
mishap and one whenever the figures have moved, not oftener than every few seconds.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from llmgw.cli import figures, plain
from llmgw.simulator.census import Census
from llmgw.simulator.sim_node import Mood

_EVENTS = 6
_LINE_EVERY_S = 5.0
_MOST_MARKS = 2000
"""More nodes than this are shown as figures only."""

_MARKS: Mapping[Mood, tuple[str, str]] = {
    Mood.OUTSIDE: ("·", "dim"),
    Mood.DIALLING: ("○", "yellow"),
    Mood.IDLE: ("□", "blue"),
    Mood.LOADING: ("◧", "cyan"),
    Mood.SERVING: ("■", "bold green"),
    Mood.CUT: ("~", "magenta"),
    Mood.LOST: ("✗", "bold red"),
}


class FleetProgress:
    """A live view on ``stream``; use as a context manager and ``show`` at every look."""

    def __init__(self, *, count: int, stream: IO[str] | None = None) -> None:
        """Draw on ``stream`` (standard error by default, so that a result can be piped)."""
        self._stream = stream or sys.stderr
        self._count = count
        self._events: deque[str] = deque(maxlen=_EVENTS)
        self._said = ""
        self._said_at_s = -_LINE_EVERY_S
        console = Console(file=self._stream, highlight=False, markup=False, emoji=False)
        self._live = (
            Live(console=console, auto_refresh=False, transient=True)
            if console.is_terminal
            else None
        )

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        """Clear the view."""
        if self._live:
            self._live.stop()

    def event(self, text: str) -> None:
        """Something befell a node."""
        line = plain.one_line(text)
        self._events.append(line)
        if not self._live:
            self._write(line)

    def show(self, now: Census) -> None:
        """Draw how everybody stands."""
        if self._live:
            self._live.update(_picture(now, events=self._events), refresh=True)
            return
        line = _figures(now) + (f"; {_outside(now)}" if now.refusal else "")
        is_complete = now.registered == self._count and not self._said.startswith(_all_of(now))
        is_due = now.after_s - self._said_at_s >= _LINE_EVERY_S
        if line != self._said and (is_due or is_complete):
            self._said, self._said_at_s = line, now.after_s
            self._write(f"{now.after_s:.0f} s: {line}")

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


def _all_of(now: Census) -> str:
    return f"{now.nodes} of {now.nodes} nodes"


def _figures(now: Census) -> str:
    """``12 of 50 nodes are in; shards: 8 ready, 1 loading``."""
    shards = figures.counts({str(state): n for state, n in now.shards.items()})
    return f"{now.registered} of {now.nodes} nodes are in; shards: {shards}"


def _outside(now: Census) -> str:
    return plain.one_line(f"outside: {now.refusal}")


def _picture(now: Census, *, events: deque[str]) -> Group:
    head = Text.assemble(
        (figures.bar(part=now.registered, whole=now.nodes), "green"),
        f"  {_figures(now)}",
    )
    beats = Text(f"{figures.age(now.after_s)}, {now.beats} heartbeats", style="dim")
    marks = Text(overflow="fold")
    if now.nodes <= _MOST_MARKS:
        for mood in now.moods:
            mark, style = _MARKS[mood]
            marks.append(mark, style=style)
    legend = Text()
    for mood, (mark, style) in _MARKS.items():
        legend.append(f"{mark} ", style=style)
        legend.append(f"{mood} {now.moods.count(mood)}  ", style="dim")
    outside = [Text(_outside(now), style="yellow")] if now.refusal else []
    told = (Text(event, style="dim") for event in events)
    return Group(head, beats, Text(), marks, Text(), legend, *outside, *told)
