"""A line of a usage journal says all of it, or is seen to be damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.accounting import journal_lines
from llmgw.accounting.journal_lines import Over, Sent, Unreadable
from tests.fakes.usage import note, row


def read_back(line):
    assert line.endswith(journal_lines.END)
    assert line.count(journal_lines.END) == 1
    return journal_lines.read(line[:-1])


def test_both_lines_of_a_request_say_what_they_were_told():
    given_note = note("r1", user_id="ann", holds=("org:o1",), entry_id="j-7")
    given_row = row("r1", user_id="ann", cached_tokens=3, entry_id="j-7")
    sent = read_back(journal_lines.of_note(given_note, 7))
    over = read_back(journal_lines.of_row(given_row, 7))
    assert journal_lines.note_of(sent, journal_id="j") == given_note
    assert journal_lines.row_of(over, journal_id="j") == given_row


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
COUNTS = st.integers(min_value=0, max_value=2**44)


@given(name=TEXTS, model=TEXTS, at=st.floats(0, 1e11), tokens=COUNTS)
def test_whatever_a_request_is_called_its_lines_are_one_line_each(name, model, at, tokens):
    first = journal_lines.of_note(note(name, model=model, at=at, estimate_prompt=tokens), 1)
    second = journal_lines.of_row(row(name, model=model, at=at, prompt=tokens), 1)
    assert isinstance(read_back(first), Sent)
    assert isinstance(read_back(second), Over)
    assert read_back(first).note.at == at
    assert read_back(second).row.prompt_tokens == tokens


@given(data=st.data())
def test_a_line_that_was_cut_or_changed_is_not_believed(data):
    line = journal_lines.of_note(note("r1"), 1)[:-1]
    at = data.draw(st.integers(0, len(line) - 1))
    cut = line[:at]
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[at]))
    changed = line[:at] + bytes([other]) + line[at + 1 :]
    assert isinstance(journal_lines.read(cut), Unreadable)
    assert isinstance(journal_lines.read(changed), Unreadable)


@pytest.mark.parametrize("field", ["prompt_tokens", "completion_tokens", "cost_micros"])
@pytest.mark.parametrize(("told", "kept"), [(-5, 0), (2**60, 2**44)])
def test_an_absurd_count_becomes_one_that_a_store_can_keep(field, told, kept):
    over = read_back(journal_lines.of_row(row("r1")._replace(**{field: told}), 1))
    assert getattr(journal_lines.row_of(over, journal_id="j"), field) == kept


def test_what_no_line_can_hold_is_written_as_near_as_it_can_be():
    sent = read_back(journal_lines.of_note(note("r1", model="\ud800m", estimate_prompt=10**40), 1))
    over = read_back(journal_lines.of_row(row("r1", model="\ud800m", cost_micros=10**40), 1))
    assert (sent.note.model, sent.note.estimate_prompt) == ("?m", 2**44)
    assert (over.row.model, over.row.cost_micros, over.row.prompt_tokens) == ("?m", 2**44, 10)


def test_a_name_loses_what_no_store_can_keep():
    sent = read_back(journal_lines.of_note(note("r\x001"), 1))
    over = read_back(journal_lines.of_row(row("r\x001"), 1))
    assert journal_lines.note_of(sent, journal_id="j").request_id == "r1"
    assert journal_lines.row_of(over, journal_id="j").request_id == "r1"
