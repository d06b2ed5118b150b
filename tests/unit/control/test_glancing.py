"""What the last passes did is read from the end of a journal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.reconciler import deciding
from llmgw.control.recorder import glancing
from llmgw.control.recorder.journal import FOLDER, Journal
from tests.fakes import clusters

LLAMA = clusters.model("llama", clusters.gpu_profile("p", tp=1), min=1)


async def kept(tmp_path, *, passes, max_bytes=1_000_000):
    """A journal of passes of which every second one places something."""
    with_room = clusters.snapshot(LLAMA, on=clusters.cluster(clusters.node("n1", gpus=2)))
    without = clusters.snapshot(LLAMA, on=clusters.cluster(clusters.node("n1", gpus=0)))
    journal = Journal(tmp_path, max_bytes=max_bytes)
    for number in range(passes):
        snapshot = replace(with_room if number % 2 else without, seed=number)
        journal.record(snapshot, deciding.decide(snapshot), at=1000.0 + number)
    await journal.close()
    return tmp_path


async def test_the_newest_come_first_and_those_that_did_nothing_are_left_out(tmp_path):
    found = glancing.last(await kept(tmp_path, passes=6), limit=10)
    assert [one.at for one in found] == [1005.0, 1003.0, 1001.0]
    assert [a.kind for a in found[0].actions] == ["Place"]
    assert found[0].actions[0].subject.startswith("llama-")
    assert found[0].actions[0].reason


async def test_as_many_as_are_asked_for_and_none_that_is_older(tmp_path):
    folder = await kept(tmp_path, passes=6)
    assert len(glancing.last(folder, limit=2)) == 2
    assert [one.at for one in glancing.last(folder, limit=9, since=1003.0)] == [1005.0, 1003.0]


async def test_all_files_are_read_and_a_line_that_was_cut_off_is_no_harm(tmp_path):
    folder = await kept(tmp_path, passes=8, max_bytes=40_000)
    files = sorted((folder / FOLDER).glob("*.jsonl"))
    with files[-1].open("a") as file:
        file.write('{"pass": 99, "at": 5000.0, "deci')
    found = glancing.last(folder, limit=100)
    assert found[0].at == 1007.0
    assert [one.at for one in found] == sorted((one.at for one in found), reverse=True)


@pytest.mark.parametrize("limit", [1, 50])
def test_without_a_journal_nothing_was_done(tmp_path, limit):
    assert glancing.last(tmp_path, limit=limit) == ()
