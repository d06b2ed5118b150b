"""Every numbered promise of the gateway is on its page once: held by tests, or left for later."""

from __future__ import annotations

import re

from tests.layout.test_docs import ROOT

PAGE = ROOT / "docs" / "contribute" / "promises-gateway.md"
NUMBERS = range(1, 138)

_ROW = re.compile(r"^\| (\d+): (.+?) \| (.+) \|$", re.MULTILINE)


def rows():
    """Number and last column of each row, of those that are held and of those left for later."""
    held, heading, later = PAGE.read_text().partition("\n## Later issues\n")
    assert heading
    return [
        [(int(number), last) for number, _, last in _ROW.findall(part)] for part in (held, later)
    ]


def test_every_number_is_there_once_and_in_order():
    held, later = rows()
    assert sorted(number for number, _ in held + later) == list(NUMBERS)
    for part in (held, later):
        assert part == sorted(part)


def test_what_is_held_names_tests_and_what_is_left_an_issue():
    """That each test exists is seen with the other pages of promises."""
    held, later = rows()
    assert [number for number, last in held if not last.startswith("`tests/")] == []
    assert [number for number, last in later if "`" in last] == []
