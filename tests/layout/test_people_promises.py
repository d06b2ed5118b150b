"""Every line of the checklist on people, keys, limits and money is on its page."""

from __future__ import annotations

import re

import pytest

from tests.layout.test_docs import ROOT

PAGE = ROOT / "docs" / "contribute" / "promises-people.md"
LINES = {
    "account": 19,
    "budget": 13,
    "rate": 9,
    "recorder": 5,
    "claim": 5,
    "key": 3,
    "tenancy": 7,
    "done when": 8,
}
"""How many lines stand under each heading of the chapter, and at the end of the issue."""

_LABEL = re.compile(r"^(" + "|".join(LINES) + r") (\d+(?:, \d+)*):")
_ROW = re.compile(r"^\| (.+?) \| (.+) \|$", re.MULTILINE)


def numbers(name):
    """The lines of one heading that the page speaks of."""
    found = [
        int(number)
        for promise, _ in _ROW.findall(PAGE.read_text())
        for label, listed in _LABEL.findall(promise)
        if label == name
        for number in listed.split(", ")
    ]
    return sorted(found)


@pytest.mark.parametrize("name", LINES)
def test_every_line_of_the_checklist_is_there_once(name):
    assert numbers(name) == list(range(1, LINES[name] + 1))


def test_what_is_held_names_a_test_and_what_is_not_a_reason():
    """That each test exists is seen with the other pages of promises."""
    held, heading, other = PAGE.read_text().partition("\n## Not as the chapters say\n")
    assert heading
    heads = {"held by", "why", "---"}
    loose = [
        promise
        for promise, last in _ROW.findall(held)
        if last not in heads and not last.startswith("`tests/")
    ]
    assert loose == []
    reasons = [last for _, last in _ROW.findall(other) if last not in heads]
    assert reasons
    assert [reason for reason in reasons if len(reason.split()) < 5] == []
