"""Figures as people read them; what is unknown stays absent."""

from __future__ import annotations

import pytest

from llmgw.cli import figures


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, None),
        (-1, "0s"),
        (0.4, "0s"),
        (59.9, "59s"),
        (60, "1m00s"),
        (252, "4m12s"),
        (3600, "1h00m"),
        (11100, "3h05m"),
        (187200, "2d4h"),
    ],
)
def test_age_has_two_units_at_most(seconds, shown):
    assert figures.age(seconds) == shown


@pytest.mark.parametrize(
    ("n_bytes", "shown"),
    [
        (None, None),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (3 * 1024**3, "3.0 GiB"),
        (5000 * 1024**5, "5000.0 PiB"),
    ],
)
def test_size_is_binary(n_bytes, shown):
    assert figures.size(n_bytes) == shown


def test_unknown_whole_leaves_nothing_to_say():
    assert figures.part_of(1024, None) is None


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        (3 * 1024**3, 31 * 1024**3, "3.0 of 31.0 GiB"),
        (512 * 1024**2, 2 * 1024**3, "0.5 of 2.0 GiB"),
        (None, 2 * 1024**3, "- of 2.0 GiB"),
        (1, 2, "1 of 2 B"),
    ],
)
def test_part_is_in_the_unit_of_the_whole(part, whole, shown):
    assert figures.part_of(part, whole) == shown


def test_counts_name_only_what_is_there():
    assert figures.counts({"ready": 3, "lost": 1, "draining": 0}) == "3 ready, 1 lost"
    assert figures.counts({}) == "none"


def test_known_empty_list_is_none_in_words():
    assert figures.listed([]) == "none"


@pytest.mark.parametrize(
    ("part", "whole", "shown"), [(0, 4, "░░░░"), (1, 2, "██░░"), (4, 4, "████"), (0, 0, "░░░░")]
)
def test_bar_is_filled_in_proportion(part, whole, shown):
    assert figures.bar(part=part, whole=whole, width=4) == shown
