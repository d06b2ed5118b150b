"""``make slow`` collects only the rooms that hold slow tests, so each of them must be named."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARK = re.compile(r"pytest\.mark\.(?:slow|soak)\b(?!\n@pytest\.mark\.exhaustive\b)")
ROOMS = re.compile(r"^SLOW_ROOMS := \$\(addprefix tests/,([^)]+)\)$", re.MULTILINE)


def test_every_slow_test_is_in_a_room_that_make_slow_collects():
    rooms = [*named_rooms(), ROOT / "tests" / "ansible"]
    outside = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if has_slow_tests(path) and not any(path.is_relative_to(room) for room in rooms)
    ]
    assert outside == []


def test_each_room_named_holds_a_slow_test():
    for room in named_rooms():
        assert any(has_slow_tests(path) for path in room.rglob("*.py")), room


def has_slow_tests(path):
    return MARK.search(path.read_text()) is not None


def named_rooms():
    named = ROOMS.search((ROOT / "Makefile").read_text())
    return [ROOT / "tests" / room for room in named[1].replace("\\\n", " ").split()]
