"""Tables for people and for pipes."""

from __future__ import annotations

import io
import json

from llmgw.cli import plain
from llmgw.cli.screens import Column, Row, Screen

COLUMNS = (Column("NODE"), Column("STATE", is_state=True), Column("REASON"))
ROWS = (
    Row(("node01", "ready", None), under=("a line under it",)),
    Row(("n2", "lost", "a very long reason that does not fit into a narrow window at all")),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def piped() -> tuple[io.StringIO, Screen]:
    stream = io.StringIO()
    return stream, Screen(stream=stream)


def test_pipe_gets_plain_aligned_text_with_nothing_cut():
    stream, screen = piped()
    screen.table(COLUMNS, ROWS)
    assert stream.getvalue().splitlines() == [
        "NODE    STATE  REASON",
        "node01  ready  -",
        "  a line under it",
        "n2      lost   a very long reason that does not fit into a narrow window at all",
    ]


def test_terminal_gets_colour_and_cells_cut_to_the_window(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    Screen(stream=stream, width=40).table(COLUMNS, ROWS)
    shown = stream.getvalue()
    assert "\x1b[32mready" in shown
    assert "…" in shown
    assert "at all" not in shown


def test_column_of_reasons_is_never_cut(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    columns = (*COLUMNS[:2], Column("REASON", is_whole=True))
    Screen(stream=stream, width=40).table(columns, ROWS)
    assert "at all" in stream.getvalue()
    assert "…" not in stream.getvalue()


def test_unknown_is_a_dash_and_zero_is_zero():
    stream, screen = piped()
    screen.table([Column("A"), Column("B")], [Row((None, "0"))])
    assert stream.getvalue().splitlines()[1] == "-  0"


def test_table_without_rows_still_has_its_headers():
    stream, screen = piped()
    screen.table(COLUMNS, [])
    assert stream.getvalue() == "NODE  STATE  REASON\n"


def test_wide_characters_keep_the_columns_aligned():
    stream, screen = piped()
    screen.table([Column("A"), Column("B")], [Row(("模型", "x")), Row(("abcd", "y"))])
    assert stream.getvalue().splitlines()[1:] == ["模型  x", "abcd  y"]


def test_foreign_text_cannot_steer_the_terminal():
    assert plain.one_line("a\x1b[31mb\nc\td\x07") == "a\ufffd[31mb c d\ufffd"


def test_square_brackets_are_no_markup(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    Screen(stream=stream, width=80).line("[bold]x[/bold]")
    assert "[bold]x[/bold]" in stream.getvalue()


def test_facts_are_aligned():
    stream, screen = piped()
    screen.facts([("A", "1"), ("LONG", None)])
    assert stream.getvalue() == "A     1\nLONG  -\n"


def test_document_is_json_and_nothing_else():
    stream, screen = piped()
    screen.document({"name": "é", "n": None})
    assert json.loads(stream.getvalue()) == {"name": "é", "n": None}
