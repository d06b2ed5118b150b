"""A journal tells passes as they were, and they are decided the same once more."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.control.reconciler.deciding import decide
from llmgw.control.recorder import recordings, replaying
from llmgw.control.recorder.recordings import Pass
from llmgw.errors import Invalid
from tests.fakes import stirred
from tests.fakes.random_clusters import Dice

MANY = settings(max_examples=500, deadline=None, derandomize=True, database=None)
"""Two recorded passes each, which makes a thousand."""
SEEDS = st.integers(min_value=0, max_value=2**32)


def passes(*seeds):
    for i, seed in enumerate(seeds):
        snapshot = stirred.snapshot(Dice(seed))
        yield Pass(i + 1, at=1000.0 + i, snapshot=snapshot, decision=decide(snapshot))


def journal(found):
    lines, last = [recordings.head()], None
    for one in found:
        lines.append(recordings.line(one, after=last))
        last = one.snapshot
    return lines


@MANY
@given(SEEDS, SEEDS)
def test_a_recorded_pass_is_decided_the_same_once_more(one, other):
    written = list(passes(one, other))
    read = list(recordings.read(journal(written)))
    assert [r.read() for r in read] == [w.snapshot for w in written]
    assert all(replaying.replay(r).is_same for r in read)


def test_a_pass_that_is_decided_otherwise_is_told_with_both():
    placing = next(p for p in passes(*range(60)) if p.decision.actions)
    told, *others = placing.decision.actions
    altered = replace(placing, decision=replace(placing.decision, actions=tuple(others)))
    (read,) = recordings.read(journal([altered]))
    again = replaying.replay(read)
    assert not again.is_same
    assert any(type(told).__name__ in line for line in again.differences())


def test_a_refusal_that_differs_is_told():
    refusing = next(p for p in passes(*range(200)) if p.decision.refusals)
    altered = replace(refusing, decision=replace(refusing.decision, refusals={"m": "why"}))
    (read,) = recordings.read(journal([altered]))
    (line,) = replaying.replay(read).differences()
    assert line.startswith("refusals: then {'m': 'why'}, now ")


def test_a_last_line_that_was_cut_off_is_left_out():
    lines = journal(passes(1, 2, 3))
    cut = [*lines[:-1], lines[-1][:-9]]
    assert [r.number for r in recordings.read(cut)] == [1, 2]


def test_a_line_that_is_damaged_in_the_middle_is_refused():
    lines = journal(passes(1, 2))
    with pytest.raises(Invalid, match="damaged"):
        list(recordings.read([lines[0], lines[1][:-9] + "\n", lines[2]]))


@pytest.mark.parametrize("first", ["", "{}\n", "[1]\n", "hello\n"])
def test_what_is_no_journal_is_refused(first):
    with pytest.raises(Invalid, match="no journal"):
        list(recordings.read([first]))


def test_a_journal_of_another_format_says_who_wrote_it():
    head = json.dumps({"format": 99, "llmgw": "9.9"}) + "\n"
    with pytest.raises(Invalid, match=r"format 99 .* llmgw 9\.9"):
        list(recordings.read([head]))


def test_a_pass_in_which_little_happened_takes_little():
    (first,) = passes(8)
    later = replace(first, snapshot=replace(first.snapshot, now=first.snapshot.now + 5, seed=77))
    whole = recordings.line(first, after=None)
    change = recordings.line(replace(later, decision=decide(later.snapshot)), after=first.snapshot)
    assert len(change) < len(whole) / 5


@pytest.mark.parametrize(("at", "found"), [(999.0, None), (1000.0, 1), (1001.5, 2), (9e9, 3)])
def test_the_pass_of_a_time_is_the_last_one_that_had_begun(at, found):
    read = recordings.read(journal(passes(1, 2, 3)))
    one = replaying.at_or_before(read, at)
    assert (one and one.number) == found
