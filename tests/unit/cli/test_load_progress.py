"""How far a start is, on a terminal and on a pipe."""

from __future__ import annotations

import dataclasses
import io
import re

import pytest

from llmgw.cli import load_progress
from llmgw.cli.load_progress import LoadProgress
from llmgw.domain.replicas import FetchProgress, ShardState
from llmgw.domain.views import ReplicaView
from tests.fakes.fleet import FETCHING_REPLICA, GIB, READY_REPLICA


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def fetching(done: int, total: int | None = 4 * GIB) -> ReplicaView:
    fetch = FetchProgress(source="http://x/small.gguf", done_bytes=done, total_bytes=total)
    return with_shard(state=ShardState.PENDING, fetch=fetch)


def with_shard(**changes: object) -> ReplicaView:
    [shard] = FETCHING_REPLICA.shards
    return dataclasses.replace(
        FETCHING_REPLICA,
        shards=(dataclasses.replace(shard, fetch=None, **changes),)
        if "fetch" not in changes
        else (dataclasses.replace(shard, **changes),),
    )


@pytest.mark.parametrize(
    ("replica", "line"),
    [
        pytest.param(
            FETCHING_REPLICA,
            "cpu01 is fetching small.gguf: 3.0 GiB of 4.0 GiB (75 %)",
            id="fetching, and the query of the address is no part of the name",
        ),
        pytest.param(
            fetching(GIB, None), "cpu01 is fetching small.gguf: 1.0 GiB so far", id="no length"
        ),
        pytest.param(
            fetching(0), "cpu01 is fetching small.gguf: 0 B of 4.0 GiB (0 %)", id="just begun"
        ),
        pytest.param(
            fetching(5 * GIB),
            "cpu01 is fetching small.gguf: 5.0 GiB of 4.0 GiB (100 %)",
            id="longer than announced",
        ),
        pytest.param(
            with_shard(state=ShardState.PENDING), "cpu01 is waiting to start small", id="pending"
        ),
        pytest.param(
            with_shard(state=ShardState.STARTING),
            "cpu01 is starting an engine for small",
            id="starting",
        ),
        pytest.param(with_shard(state=ShardState.LOADING), "cpu01 is loading small", id="loading"),
    ],
)
def test_stage_says_what_the_shard_is_busy_with(replica, line):
    [stage] = load_progress.stages(replica)
    assert stage.line == line


@pytest.mark.parametrize(
    "state", [ShardState.READY, ShardState.DRAINING, ShardState.STOPPED, ShardState.FAILED]
)
def test_shard_that_is_not_on_its_way_up_has_no_stage(state):
    assert load_progress.stages(with_shard(state=state)) == ()


def test_rate_and_time_that_is_left_are_said_where_they_are_known():
    stage = load_progress.Stage(
        "m.0", "fetching", done_bytes=512, total_bytes=1024, bytes_per_s=256.0, eta_s=2.0
    )
    assert stage.amount == "512 B of 1.0 KiB (50 %), 256 B/s, 2s left"


def test_pipe_gets_a_line_for_each_tenth_and_each_change_of_stage():
    stream = io.StringIO()
    with LoadProgress.shown(stream=stream) as load:
        for percent in range(0, 101, 2):
            load.show([fetching(4 * GIB * percent // 100)])
        load.show([with_shard(state=ShardState.LOADING)])
        load.show([with_shard(state=ShardState.LOADING)])
        load.show([READY_REPLICA])
    lines = stream.getvalue().splitlines()
    assert len(lines) == 12
    assert lines[-1] == "cpu01 is loading small"
    assert "\x1b" not in stream.getvalue()


def test_pipe_gets_a_line_for_each_256_mib_when_the_length_is_unknown():
    stream = io.StringIO()
    with LoadProgress.shown(stream=stream) as load:
        for mib in range(0, 513, 64):
            load.show([fetching(mib * 1024**2, None)])
    assert len(stream.getvalue().splitlines()) == 3


def test_note_is_said_once_in_a_row():
    stream = io.StringIO()
    with LoadProgress.shown(stream=stream) as load:
        for text in ("a", "a", "b", "a"):
            load.note(text)
    assert stream.getvalue().splitlines() == ["a", "b", "a"]


def test_terminal_gets_a_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    with LoadProgress.shown(stream=stream) as load:
        load.show([FETCHING_REPLICA])
        load.note("beside the bar")
        load.show([with_shard(state=ShardState.LOADING)])
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert "3.0 GiB of 4.0 GiB (75 %)" in shown
    assert "━" in shown
    assert "beside the bar" in shown
