"""Every line of the agent's two checklists is on its page: held by tests, or said not to be."""

from __future__ import annotations

import re

import pytest

from tests.layout.test_docs import ROOT

PAGE = ROOT / "docs" / "contribute" / "promises-agent.md"
LINES = {
    # The chapter on the agent.
    "stream": 20,
    "config": 7,
    "remove weights": 1,
    "health": 1,
    "supervisor": 17,
    "weights": 6,
    "discovery beside": 3,
    "provision beside": 1,
    "hazard": 15,
    # The chapter on discovery and engines.
    "discovery driver": 6,
    "gpu": 9,
    "infiniband": 6,
    "fabric check": 9,
    "memory, storage, weights": 10,
    "environment": 4,
    "vllm": 8,
    "sglang": 1,
    "validation": 4,
    "llama.cpp": 7,
    "probe": 4,
    "sim": 1,
    "provision": 10,
    "agent": 5,
    "ranks": 2,
    # What the whole is done by.
    "done when": 7,
}
"""How many lines stand under each heading; the page says which heading is meant by which word."""

GAPS = ("1.5", "1.6", "1.7", "3.1", "3.4", "3.5", "3.6", "4.3", "4.5", "4.6", "4.9", "4.10")
GAPS_OF_INSTALLATION = ("5.1", "6.8", "6.9")

_NAME = "|".join(re.escape(name) for name in sorted(LINES, key=len, reverse=True))
_LABEL = re.compile(rf"(?:^|, )({_NAME}) (\d+(?:, \d+)*)(?=[,:])")
_GAP = re.compile(r"^gap of ((?:\d+\.\d+)(?:, \d+\.\d+)*):")
_ROW = re.compile(r"^\| (.+?) \| (.+) \|$", re.MULTILINE)


def rows():
    """The promise and what holds it, in small letters, of each row."""
    return [(promise.lower(), held) for promise, held in _ROW.findall(PAGE.read_text())]


def numbers(name):
    """The lines of one heading that the page speaks of."""
    found = [
        int(number)
        for promise, _ in rows()
        for label, listed in _LABEL.findall(promise)
        if label == name
        for number in listed.split(", ")
    ]
    return sorted(set(found))


@pytest.mark.parametrize("name", LINES)
def test_every_line_of_a_checklist_is_there_and_no_other(name):
    assert numbers(name) == list(range(1, LINES[name] + 1))


def test_every_gap_is_there():
    spoken_of = {
        gap
        for promise, _ in rows()
        for listed in _GAP.findall(promise)
        for gap in listed.split(", ")
    }
    assert spoken_of == {*GAPS, *GAPS_OF_INSTALLATION}


def test_what_is_held_names_a_test_and_what_is_not_a_reason():
    held, heading, other = PAGE.read_text().partition("\n## Not as the chapters say\n")
    assert heading
    heads = {"held by", "why", "---"}
    assert [
        promise
        for promise, last in _ROW.findall(held)
        if last not in heads and not last.startswith("`tests/")
    ] == []
    reasons = [last for _, last in _ROW.findall(other) if last not in heads]
    assert reasons
    assert [reason for reason in reasons if len(reason.split()) < 5] == []
