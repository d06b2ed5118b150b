"""Durations and sizes as people write them."""

from __future__ import annotations

import pytest

from llmgw.errors import Invalid
from llmgw.kit import units


@pytest.mark.parametrize(
    ("written", "value_s"),
    [
        ("2s", 2.0),
        ("15m", 900.0),
        ("1.5h", 5400.0),
        ("250ms", 0.25),
        ("1h30m", 5400.0),
        ("1d", 86400.0),
        (" 5 ", 5.0),
        (5, 5.0),
        (0.5, 0.5),
        (0, 0.0),
    ],
)
def test_durations(written, value_s):
    assert units.seconds(written) == value_s


@pytest.mark.parametrize(
    "written", ["", "soon", "-1s", "5 parsecs", "1e3", -1, True, None, float("inf"), float("nan")]
)
def test_what_is_no_duration(written):
    with pytest.raises(Invalid, match="is no duration"):
        units.seconds(written)


@pytest.mark.parametrize(
    ("written", "value_bytes"),
    [
        ("64KiB", 65536),
        ("32 MiB", 33554432),
        ("1GB", 10**9),
        ("4096", 4096),
        (0, 0),
        ("1.5KiB", 1536),
    ],
)
def test_sizes(written, value_bytes):
    assert units.size_bytes(written) == value_bytes


@pytest.mark.parametrize("written", ["", "big", "1XiB", "-1", -1, 1.5, True, None])
def test_what_is_no_size(written):
    with pytest.raises(Invalid, match="is no size"):
        units.size_bytes(written)


@pytest.mark.parametrize("text", ["0s", "250ms", "2s", "15m", "90s", "1h", "1d"])
def test_a_shown_duration_reads_as_itself(text):
    assert units.seconds(units.shown_seconds(units.seconds(text))) == units.seconds(text)


@pytest.mark.parametrize("text", ["0", "100", "64KiB", "32MiB", "1GiB", "1TiB"])
def test_a_shown_size_is_what_was_written(text):
    assert units.shown_bytes(units.size_bytes(text)) == text


HUGE = "9" * 400
"""More than a floating-point number holds."""


@pytest.mark.parametrize(
    ("read", "written"),
    [
        (units.seconds, f"{HUGE}s"),
        (units.seconds, HUGE),
        (units.seconds, int(HUGE)),
        (units.size_bytes, f"{HUGE}MiB"),
        (units.size_bytes, HUGE),
    ],
    ids=["duration", "seconds", "number", "size", "bytes"],
)
def test_number_that_no_number_holds_is_a_mistake(read, written):
    with pytest.raises(Invalid, match="is no"):
        read(written)
