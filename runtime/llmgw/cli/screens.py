"""Writes what a command found: tables and lines for people, one JSON document for programs.

Colour, and cells cut to the window, only on a terminal; a pipe gets plain text with nothing cut.
An unknown figure is written ``-``. Text that came from elsewhere cannot steer the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from llmgw.cli import plain

UNKNOWN = "-"
_GAP = "  "
_NARROWEST = 8

_STYLES: Mapping[str, str] = {
    **dict.fromkeys(("ready", "yes", "open", "leader"), "green"),
    **dict.fromkeys(("failed", "lost", "banned", "unplaced", "backoff", "no"), "red"),
    **dict.fromkeys(
        ("starting", "loading", "draining", "cordoned", "unreachable", "shut", "standby"), "yellow"
    ),
    **dict.fromkeys(("off", "on_demand", "stopped"), "dim"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: whether its words are states, which a terminal colours, and may not be cut."""

    header: str
    is_state: bool = False
    is_whole: bool = False

    @property
    def may_cut(self) -> bool:
        """Whether a narrow window may shorten its cells."""
        return not (self.is_state or self.is_whole)


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of one thing (``None`` is unknown) and the lines that belong under it."""

    cells: Sequence[str | None]
    under: Sequence[str] = ()


class Screen:
    """Where one command writes."""

    def __init__(
        self,
        *,
        stream: IO[str],
        width: int | None = None,
        has_headers: bool = True,
        is_terminal: bool | None = None,
    ) -> None:
        """Write to ``stream``; ``width`` and ``is_terminal`` override what it is."""
        self._console = Console(
            file=stream,
            highlight=False,
            markup=False,
            emoji=False,
            width=width,
            force_terminal=is_terminal,
        )
        self._stream = stream
        self.has_headers = has_headers

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return self._console.width

    @property
    def is_terminal(self) -> bool:
        """A person is looking."""
        return self._console.is_terminal

    def document(self, value: object) -> None:
        """One JSON document and nothing else."""
        self._stream.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def line(self, text: str = "", *, style: str = "") -> None:
        """One line."""
        self._write(Text(plain.one_line(text), style=style))

    def table(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """Upper-case headers, two spaces between columns, no borders."""
        cells = [[plain.one_line(UNKNOWN if c is None else c) for c in row.cells] for row in rows]
        widths = _widths(columns, cells)
        if self.is_terminal:
            widths = _shrunk(columns, widths, width=self._console.width)
        if self.has_headers:
            headers = [c.header for c in columns]
            self._write(_joined(headers, widths, [""] * len(columns), base="bold"))
        for row, texts in zip(rows, cells, strict=True):
            styles = [_style(t) if c.is_state else "" for c, t in zip(columns, texts, strict=True)]
            self._write(_joined(texts, widths, styles))
            for line in row.under:
                self.line(_GAP + line, style="dim")

    def facts(self, facts: Sequence[tuple[str, str | None]]) -> None:
        """One ``NAME  value`` a line, the values aligned."""
        widest = max((cell_len(name) for name, _ in facts), default=0)
        for name, value in facts:
            shown = plain.one_line(UNKNOWN if value is None else value)
            self._write(Text.assemble((set_cell_size(name, widest), "bold"), _GAP, shown))

    def _write(self, text: Text) -> None:
        if self.is_terminal:
            self._console.print(text, soft_wrap=True)
        else:
            self._stream.write(text.plain.rstrip() + "\n")


def standard(*, has_headers: bool = True) -> Screen:
    """The screen of this process's standard output."""
    return Screen(stream=sys.stdout, has_headers=has_headers)


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(cell_len(column.header), *(cell_len(row[i]) for row in cells), 0)
        for i, column in enumerate(columns)
    ]


def _shrunk(columns: Sequence[Column], widths: Sequence[int], *, width: int) -> list[int]:
    """The widths, the widest that may be cut made narrower until the line fits the window."""
    shrunk = list(widths)
    while sum(shrunk) + len(_GAP) * (len(shrunk) - 1) > width:
        cuttable = [i for i, c in enumerate(columns) if c.may_cut and shrunk[i] > _NARROWEST]
        if not cuttable:
            break
        shrunk[max(cuttable, key=lambda i: shrunk[i])] -= 1
    return shrunk


def _joined(
    texts: Sequence[str], widths: Sequence[int], styles: Sequence[str], *, base: str = ""
) -> Text:
    line = Text(style=base)
    for i, (text, width, style) in enumerate(zip(texts, widths, styles, strict=True)):
        fitted = text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"
        is_last = i == len(texts) - 1
        line.append(fitted, style=style)
        line.append("" if is_last else " " * (width - cell_len(fitted)) + _GAP)
    return line


def _style(text: str) -> str:
    return _STYLES.get(text, "")
