"""Every line of the control plane's checklist is on its page once: held, or left for later."""

from __future__ import annotations

import re

import pytest

from tests.layout.test_docs import ROOT

PAGE = ROOT / "docs" / "contribute" / "promises-control.md"
LINES = {
    "C": 28,  # catalog
    "I": 18,  # inventory
    "P": 17,  # placement
    "S": 5,  # settling
    "R": 16,  # reconciler
    "D": 10,  # drains and demand
    "A": 14,  # adoption
    "G": 8,  # agents' service
    "L": 8,  # leadership
    "V": 8,  # engines on nodes
    "K": 13,  # admin API, ctl, metrics, store
    "B": 3,  # beyond
}
"""How many lines the checklist has of each kind."""

ENDS = range(1, 8)
"""The ends of the issue."""

_ROW = re.compile(r"^\| (.+?): (.+) \| (.+) \|$", re.MULTILINE)
_NUMBER = re.compile(r"[A-Z]\d\d")


def rows():
    """Label and last column of each row, of those that are held and of those left for later."""
    held, heading, later = PAGE.read_text().partition("\n## Later issues\n")
    assert heading
    return [[(label, last) for label, _, last in _ROW.findall(part)] for part in (held, later)]


def numbers():
    """The lines of the checklist that the page speaks of."""
    held, later = rows()
    return [n for label, _ in held + later for n in _NUMBER.findall(label)]


@pytest.mark.parametrize("kind", LINES)
def test_every_line_of_the_checklist_is_there_once(kind):
    expected = [f"{kind}{number:02}" for number in range(1, LINES[kind] + 1)]
    assert sorted(n for n in numbers() if n.startswith(kind)) == expected


def test_no_other_line_is_there():
    assert {number[0] for number in numbers()} <= LINES.keys()


def test_every_end_of_the_issue_is_there():
    held, _ = rows()
    assert {label for label, _ in held if label.startswith("done when")} == {
        f"done when {number}" for number in ENDS
    }


def test_what_is_held_names_tests_and_what_is_left_says_what_it_comes_with():
    """That each test exists is seen with the other pages of promises."""
    held, later = rows()
    assert [label for label, last in held if not last.startswith("`tests/")] == []
    assert later
    assert [label for label, last in later if "`" in last] == []
