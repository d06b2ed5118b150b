"""The journal of usage: nothing of it is lost, whoever is killed and whatever is full."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from llmgw.accounting import journal_files, slate, usage_journal
from llmgw.accounting.journal_reading import JournalReader
from llmgw.accounting.usage_journal import UsageJournal
from llmgw.errors import Invalid
from tests.fakes.usage import note, row


@pytest.fixture
def places(tmp_path):
    return {"folder": tmp_path / "state", "slates": tmp_path / "run"}


@pytest.fixture
def opened(places):
    """Makes journals, and closes them."""
    made = []

    def open_journal(**changed):
        journal = UsageJournal(**{**places, "every_s": 0.01, **changed})
        made.append(journal)
        return journal

    yield open_journal
    for journal in made:
        journal.close()


def read_all(folder, *, most=10_000):
    """Every row of every journal there, those of dead writers with what they lost."""
    rows = []
    for files in journal_files.all_in(folder):
        reader = JournalReader(files)
        reader.look()
        while found := reader.rows(most):
            rows += found
        rows += reader.lost() if reader.is_finished else []
        reader.close()
    return rows


def outcomes(rows):
    return {one.request_id: one.outcome for one in rows}


def test_what_has_ended_is_read_with_all_it_told(places, opened):
    journal = opened()
    one, other = row("r1", user_id="ann"), row("r2", outcome="aborted", is_estimated=True)
    for given in (one, other):
        journal.dispatched(note(given.request_id, user_id=given.user_id))
        journal.ended(given)
    journal.close()
    found = read_all(places["folder"])
    assert [told._replace(entry_id="") for told in found] == [
        told._replace(entry_id="") for told in (one, other)
    ]


def test_requests_with_the_same_id_are_each_told(places, opened):
    journal = opened()
    for _ in range(3):
        journal.dispatched(note("same"))
    assert journal.running == 3
    for _ in range(3):
        journal.ended(row("same"))
    assert journal.running == 0
    journal.close()
    found = read_all(places["folder"])
    assert len({one.entry_id for one in found}) == 3


def test_the_end_of_a_request_that_was_never_sent_is_nobodys(places, opened):
    journal = opened()
    journal.ended(row("r1"))
    journal.close()
    assert read_all(places["folder"]) == []


def test_a_living_writers_requests_are_not_lost(places, opened):
    journal = opened()
    journal.dispatched(note("r1"))
    assert read_all(places["folder"]) == []
    journal.ended(row("r1"))
    journal.close()
    assert outcomes(read_all(places["folder"])) == {"r1": "finished"}


WRITER = """
    import itertools, sys
    from pathlib import Path
    from llmgw.accounting.usage_journal import UsageJournal
    from tests.fakes.usage import note, row

    journal = UsageJournal(Path(sys.argv[1]), slates=Path(sys.argv[2]), every_s=float(sys.argv[3]))
    journal.start()
    for number in itertools.count():
        journal.dispatched(note(f"r{number}"))
        sys.stdout.write(f"sent r{number}\\n")  # as an engine would have heard of it
        sys.stdout.flush()
        if number % 3:
            journal.ended(row(f"r{number}"))
            sys.stdout.write(f"over r{number}\\n")
            sys.stdout.flush()
"""


@pytest.mark.parametrize("every_s", [0.001, 60], ids=["lines on the disk", "lines in memory"])
def test_a_writer_that_is_killed_loses_no_request(places, every_s):
    words = [str(places["folder"]), str(places["slates"]), str(every_s)]
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as writer:
        told = [line.split() for line in itertools.islice(writer.stdout, 4000)]
        writer.send_signal(signal.SIGKILL)
        told += [line.split() for line in writer.stdout if line.endswith("\n")]
    rows = read_all(places["folder"])
    names = [one.request_id for one in rows]
    assert len(set(names)) == len(names)
    found = outcomes(rows)
    sent = {name for word, name in told if word == "sent"}
    over = {name for word, name in told if word == "over"}
    assert sent <= set(found)
    assert len(found) - len(sent) <= 1
    assert {name for name in over if found[name] != "finished"} == set()
    assert {found[name] for name in sent - over} <= {"lost", "finished"}
    assert sum(outcome == "lost" for outcome in found.values()) >= len(sent) // 3


def test_what_is_lost_has_its_estimate(places, opened):
    journal = opened()
    journal.dispatched(note("r1", estimate_prompt=40))
    os.close(journal._lock)  # as if it had been killed
    journal._lock = os.open(os.devnull, os.O_RDONLY)
    (one,) = read_all(places["folder"])
    assert (one.outcome, one.is_estimated, one.prompt_tokens) == ("lost", True, 40)
    assert one.cost_micros == 40


def test_files_of_lines_follow_each_other_and_go_once_they_are_kept(places, opened):
    journal = opened(file_bytes=1000)
    (files,) = journal_files.all_in(places["folder"])
    reader = JournalReader(files)
    names = [f"r{number}" for number in range(40)]
    seen = []
    for name in names:
        journal.dispatched(note(name))
        journal.ended(row(name))
        journal._move()
        seen += reader.rows(10)
        reader.mark()
    while found := reader.rows(10):
        seen += found
    reader.mark()
    assert [one.request_id for one in seen] == names
    assert len(files.numbers()) <= 2
    assert files.numbers()[-1] > 5


def test_a_reader_goes_on_where_the_last_one_left_its_mark(places, opened):
    journal = opened(file_bytes=500)
    (files,) = journal_files.all_in(places["folder"])
    first = JournalReader(files)
    journal.dispatched(note("long"))
    for number in range(20):
        journal.dispatched(note(f"r{number}"))
        journal.ended(row(f"r{number}"))
        journal._move()
    assert len(first.rows(15)) == 15
    first.mark()
    assert len(first.rows(3)) == 3  # read, and not known to be kept
    journal.ended(row("long"))
    journal._move()
    second = JournalReader(files)
    assert [one.request_id for one in second.rows(99)] == [
        *(f"r{n}" for n in range(15, 20)),
        "long",
    ]


def test_lines_that_were_saved_twice_make_no_second_row(places, opened):
    """As where whoever saves them from memory is killed before he can say so."""
    journal = opened()
    journal.dispatched(note("r1"))
    journal.ended(row("r1"))
    (files,) = journal_files.all_in(places["folder"])
    lines = journal._slate.waiting(10_000)
    for number in (1, 2):
        files.lines(number).write_bytes(lines)
    entries = {one.entry_id for one in JournalReader(files).rows(99)}
    assert len(entries) == 1


def test_a_damaged_line_costs_no_other(places, opened):
    journal = opened()
    for name in ("r1", "r2", "r3"):
        journal.dispatched(note(name))
        journal.ended(row(name))
    journal.close()
    (files,) = journal_files.all_in(places["folder"])
    lines = files.lines(1).read_bytes().split(b"\n")
    lines[3] = lines[3][:20] + b"\x00" * 30 + lines[3][50:]
    files.lines(1).write_bytes(b"\n".join(lines))
    reader = JournalReader(files)
    assert [one.request_id for one in reader.rows(99)] == ["r1", "r3"]
    assert reader.unreadable_lines == 1


class FullDisk:
    """``os.write`` of a disk that takes so many bytes and then no more."""

    def __init__(self, room):
        self.room = room
        self.write = os.write

    def __call__(self, fd, data):
        if self.room <= 0:
            raise OSError(28, "No space left on device")
        taken = self.write(fd, bytes(data)[: self.room])
        self.room -= taken
        return taken


@pytest.mark.parametrize("room", range(0, 900, 37))
def test_a_full_disk_is_waited_for_and_everything_arrives(places, opened, monkeypatch, room):
    journal = opened()
    disk = FullDisk(room)
    monkeypatch.setattr(usage_journal.os, "write", disk)
    names = [f"r{number}" for number in range(6)]
    for name in names:
        journal.dispatched(note(name))
        journal.ended(row(name))
    journal._move()
    assert journal._disk.is_failing
    assert journal._slate.waiting_bytes > 0
    disk.room = 10**9
    journal.close()
    assert journal.dropped_lines == 0
    assert [one.request_id for one in read_all(places["folder"])] == names


def test_what_finds_no_room_is_counted_and_the_rest_is_whole(places, opened, monkeypatch):
    journal = opened(slate_bytes=4096)
    disk = FullDisk(0)
    monkeypatch.setattr(usage_journal.os, "write", disk)
    names = [f"r{number}" for number in range(30)]
    for name in names:
        journal.dispatched(note(name))
        journal.ended(row(name))
        journal._move()
    assert 0 < journal.dropped_lines < 30
    figures = {sample.name: sample.value for sample in journal.figures()}
    assert figures["llmgw_usage_dropped_total"] == journal.dropped_lines
    assert figures["llmgw_usage_waiting_bytes"] > 3000
    disk.room = 10**9
    journal._move()
    journal.dispatched(note("later"))
    journal.ended(row("later"))
    journal.close()
    assert {sample.value for sample in journal.figures()} == {0, journal.dropped_lines}
    found = [one.request_id for one in read_all(places["folder"]) if one.outcome == "finished"]
    assert len(found) + journal.dropped_lines == 31
    assert found[-1] == "later"


def test_a_request_whose_first_line_found_no_room_is_told_at_its_end(places, opened, monkeypatch):
    journal = opened(slate_bytes=4096)
    disk = FullDisk(0)
    monkeypatch.setattr(usage_journal.os, "write", disk)
    names = [f"r{number}" for number in range(40)]
    for name in names:
        journal.dispatched(note(name))
    disk.room = 10**9
    journal._move()
    for name in names:
        journal.ended(row(name))
        journal._move()
    journal.close()
    assert journal.dropped_lines == 0
    assert sorted(outcomes(read_all(places["folder"]))) == sorted(names)


def test_a_folder_that_cannot_be_written_is_said_with_what_to_do(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(Invalid, match="cannot note usage in"):
        UsageJournal(blocked / "usage", slates=tmp_path / "run")
    with pytest.raises(Invalid, match="run_dir needs that much room"):
        UsageJournal(tmp_path / "state", slates=blocked / "usage")


def test_a_slate_takes_what_it_has_room_for_in_order(tmp_path):
    one = slate.made(tmp_path / "slate", capacity_bytes=100)
    other = slate.found(tmp_path / "slate")
    taken, put = b"", b""
    for number in range(60):
        line = b"%d" % number * (number % 7 + 1) + b"\n"
        if one.put(line):
            put += line
        if number % 3 == 0:
            waiting = other.waiting(50)
            other.moved(len(waiting))
            taken += waiting
    taken += one.waiting(1000)
    assert taken == put
    assert one.put(b"x" * 101) == 0


@pytest.mark.parametrize("content", [b"", b"x" * 5000, b"\x00" * 9000])
def test_a_file_that_is_no_slate_is_none(tmp_path, content):
    (tmp_path / "slate").write_bytes(content)
    assert slate.found(tmp_path / "slate") is None
    assert slate.found(tmp_path / "absent") is None
