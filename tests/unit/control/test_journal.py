"""The flight recorder: bounded, private, and never in the way of a pass."""

from __future__ import annotations

import stat
from dataclasses import replace

import pytest

from llmgw.control.reconciler.deciding import decide
from llmgw.control.recorder import journal as journals
from llmgw.control.recorder import replaying
from llmgw.control.recorder.journal import Journal
from llmgw.errors import Invalid, Unknown
from tests.fakes import clusters, stirred
from tests.fakes.random_clusters import Dice
from tests.fakes.reconciled import Stage

SNAPSHOT = stirred.snapshot(Dice(8))


async def recorded(journal, *, passes, first=0):
    for i in range(first, first + passes):
        snapshot = replace(SNAPSHOT, now=SNAPSHOT.now + i, seed=i)
        journal.record(snapshot, decide(snapshot), at=1000.0 + i)
        if i % 20 == 0:
            await journal.close()
    await journal.close()


async def test_passes_are_read_as_they_were_recorded(tmp_path):
    journal = Journal(tmp_path, max_bytes=10_000_000)
    await recorded(journal, passes=30)
    read = list(journals.read(tmp_path))
    assert [one.at for one in read] == [1000.0 + i for i in range(30)]
    assert all(replaying.replay(one).is_same for one in read)
    assert journal.dropped == 0


async def test_a_journal_keeps_to_its_size_and_lets_the_oldest_go(tmp_path):
    journal = Journal(tmp_path, max_bytes=200_000)
    await recorded(journal, passes=400)
    found = journals.files(tmp_path / journals.FOLDER)
    assert len(found) <= 4
    largest_pass = 50_000
    assert sum(file.stat().st_size for file in found) <= 200_000 + largest_pass
    read = list(journals.read(tmp_path))
    assert read[0].at > 1000.0
    assert read[-1].at == 1399.0
    assert replaying.replay(read[0]).is_same


async def test_a_new_process_goes_on_in_a_file_of_its_own(tmp_path):
    await recorded(Journal(tmp_path, max_bytes=10_000_000), passes=2)
    await recorded(Journal(tmp_path, max_bytes=10_000_000), passes=2, first=5)
    assert len(journals.files(tmp_path / journals.FOLDER)) == 2
    assert [one.at for one in journals.read(tmp_path)] == [1000.0, 1001.0, 1005.0, 1006.0]


async def test_only_the_servers_user_can_read_it(tmp_path):
    await recorded(Journal(tmp_path, max_bytes=10_000_000), passes=1)
    (file,) = journals.files(tmp_path / journals.FOLDER)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_a_disk_that_refuses_costs_passes_and_one_line_in_the_log(tmp_path, control_log):
    (tmp_path / journals.FOLDER).write_text("in the way")
    journal = Journal(tmp_path, max_bytes=10_000_000)
    await recorded(journal, passes=3)
    assert journal.dropped == 3
    assert [event for event, _ in control_log].count("pass_not_recorded") == 1
    (tmp_path / journals.FOLDER).unlink()
    await recorded(journal, passes=1, first=9)
    assert [one.at for one in journals.read(tmp_path)] == [1009.0]


async def test_passes_that_come_faster_than_the_disk_are_dropped_and_counted(tmp_path):
    journal = Journal(tmp_path, max_bytes=10_000_000)
    for i in range(200):
        journal.record(replace(SNAPSHOT, seed=i), decide(SNAPSHOT), at=float(i))
    await journal.close()
    read = list(journals.read(tmp_path))
    assert len(read) + journal.dropped == 200
    assert journal.dropped > 0


def test_a_folder_without_a_journal_says_which_to_name(tmp_path):
    with pytest.raises(Unknown, match="state_dir"):
        list(journals.read(tmp_path))


def test_a_file_that_is_missing_or_something_else_is_named(tmp_path):
    with pytest.raises(Unknown, match=r"nothing\.jsonl"):
        list(journals.read(tmp_path / "nothing.jsonl"))
    (tmp_path / "other").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Invalid, match="other"):
        list(journals.read(tmp_path / "other"))


async def test_every_pass_of_the_live_loop_is_recorded_and_replays(tmp_path):
    journal = Journal(tmp_path, max_bytes=10_000_000)
    async with Stage(clusters.model("m"), recorder=journal).running() as stage:
        stage.register("n1")
        await stage.until(stage.reconciler.replicas)
    await journal.close()
    read = list(journals.read(tmp_path))
    assert any(a["kind"] == "Place" for one in read for a in one.decided["actions"])
    assert all(replaying.replay(one).is_same for one in read)
