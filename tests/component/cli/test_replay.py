"""``llmgw replay`` as a person and a program meet it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from llmgw.control.reconciler.deciding import decide
from llmgw.control.recorder.journal import Journal
from tests.fakes import clusters, commands

CLUSTER = clusters.cluster(clusters.node("n1", gpus=1), clusters.node("n2"))
SNAPSHOT = clusters.snapshot(clusters.model("m"), clusters.model("other"), on=CLUSTER)
FIRST_AT = 1_796_000_000.0  # 2026-11-30T00:53:20Z


async def journal_of(folder, *decisions):
    journal = Journal(folder, max_bytes=10_000_000)
    for i, decided in enumerate(decisions):
        snapshot = replace(SNAPSHOT, seed=i)
        journal.record(snapshot, decided or decide(snapshot), at=FIRST_AT + i)
    await journal.close()
    return str(folder)


@pytest.fixture
async def good(tmp_path):
    return await journal_of(tmp_path, None, None, None)


@pytest.fixture
async def altered(tmp_path):
    none = replace(decide(SNAPSHOT), actions=())
    return await journal_of(tmp_path, None, none)


def replay(*words):
    return commands.here("replay", *words)


def test_passes_that_are_decided_the_same_end_with_0(good):
    done = replay(good)
    assert (done.returncode, done.stderr) == (0, "")
    facts = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert facts == {
        "PASSES": "3, from 2026-11-30T00:53:20Z to 2026-11-30T00:53:22Z",
        "ACTIONS": "3",
        "RESULT": "identical",
    }


def test_a_pass_that_is_decided_otherwise_ends_with_7_and_is_shown(altered):
    done = replay(altered)
    assert done.returncode == 7
    assert "1 passes differ" in done.stdout
    assert "pass 2 at 2026-11-30T00:53:21Z:" in done.stdout
    assert "action 1: then nothing, now Place m-" in done.stdout


def test_one_pass_is_shown_with_what_it_did_and_why(good):
    done = replay(good, "--at", "2026-11-30T00:53:21.5")
    assert done.returncode == 0, done.stderr
    head, result, _, columns, row = done.stdout.splitlines()
    assert head.split() == ["PASS", "2", "at", "2026-11-30T00:53:21Z"]
    assert result.split() == ["RESULT", "identical"]
    assert columns.split() == ["ACTION", "ON", "REASON"]
    assert row.split(maxsplit=2)[0::2] == ["Place", "fewer run than are wanted"]


def test_a_program_gets_what_was_decided_then_and_now(altered):
    whole = json.loads(replay(altered, "--json").stdout)
    assert (whole["passes"], whole["is_same"]) == (2, False)
    one = replay(altered, "--at", str(FIRST_AT + 1), "--json")
    assert one.returncode == 7
    assert json.loads(one.stdout) == whole["differing"][0]
    assert whole["differing"][0]["then"]["actions"] == []
    assert whole["differing"][0]["now"]["actions"][0]["kind"] == "Place"


def test_a_time_before_the_first_pass_says_when_that_was(good):
    done = replay(good, "--at", "2020-01-01")
    assert done.returncode == 4
    assert "its first pass is of 2026-11-30T00:53:20Z" in done.stderr


def test_what_is_no_time_is_a_mistake_that_says_what_is_legal(good):
    done = replay(good, "--at", "yesterday")
    assert done.returncode == 2
    assert "write 2026-11-30T09:12:04" in done.stderr


def test_a_folder_without_a_journal_is_unknown_and_says_which_to_name(tmp_path):
    done = replay(str(tmp_path))
    assert done.returncode == 4
    assert "the folder 'journal' in the server's state_dir" in done.stderr


def test_a_file_that_is_no_journal_is_refused_by_name(tmp_path):
    (tmp_path / "notes.txt").write_text("hello\n")
    done = replay(str(tmp_path / "notes.txt"))
    assert done.returncode == 2
    assert "notes.txt: this is no journal" in done.stderr
