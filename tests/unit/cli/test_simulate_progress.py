"""How a simulated fleet is shown: a map on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

import pytest

from llmgw.cli.simulate_progress import FleetProgress
from llmgw.domain.replicas import ShardState
from llmgw.simulator.census import Census
from llmgw.simulator.sim_node import Mood


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")


def census(*moods, after_s=0.0, refusal="", **shards):
    registered = sum(m in {Mood.IDLE, Mood.LOADING, Mood.SERVING} for m in moods)
    return Census(
        after_s=after_s,
        moods=moods,
        registered=registered,
        ever_registered=registered,
        shards={ShardState(name): count for name, count in shards.items()},
        beats=7,
        refusal=refusal,
    )


def said(*looks, events=(), count=3):
    stream = io.StringIO()
    with FleetProgress(count=count, stream=stream) as progress:
        for look in looks:
            progress.show(look)
        for event in events:
            progress.event(event)
    return stream.getvalue().splitlines()


def test_on_a_pipe_a_line_comes_when_something_moved_and_not_oftener_than_every_few_seconds():
    waiting = (Mood.IDLE, Mood.DIALLING, Mood.DIALLING)
    lines = said(
        census(*waiting),
        census(Mood.IDLE, Mood.IDLE, Mood.DIALLING, after_s=1.0),
        census(*waiting, after_s=6.0),
        census(Mood.IDLE, Mood.IDLE, Mood.DIALLING, after_s=6.3),
        census(Mood.IDLE, Mood.IDLE, Mood.DIALLING, after_s=20.0),
    )
    assert lines == [
        "0 s: 1 of 3 nodes are in; shards: none",
        "6 s: 2 of 3 nodes are in; shards: none",
    ]


def test_on_a_pipe_the_last_node_is_told_at_once():
    full = (Mood.IDLE, Mood.LOADING, Mood.SERVING)
    lines = said(
        census(Mood.IDLE, Mood.IDLE, Mood.DIALLING),
        census(*full, after_s=0.5, loading=1, ready=1),
        census(*full, after_s=1.0, loading=2, ready=1),
    )
    assert lines[1:] == ["0 s: 3 of 3 nodes are in; shards: 1 loading, 1 ready"]


def test_on_a_pipe_every_mishap_is_a_line():
    assert said(events=["n1 boots", "n2\nflaps"]) == ["n1 boots", "n2 flaps"]


def test_who_is_refused_is_told_with_the_reason():
    (line,) = said(census(Mood.DIALLING, refusal="nothing listens there"), count=1)
    assert line.endswith("outside: nothing listens there")


def test_a_terminal_has_a_mark_for_each_node_and_what_befell_them():
    stream = Terminal()
    with FleetProgress(count=7, stream=stream) as progress:
        progress.event("n1 loses power for 90 s")
        progress.show(census(*Mood, after_s=61.0, ready=2))
        drawn = stream.getvalue()
    for text in ("3 of 7 nodes are in", "2 ready", "1m01s, 7 heartbeats", "n1 loses power"):
        assert text in drawn
    assert all(mark in drawn for mark in "·○□◧■~✗")
    assert all(f"{mood} 1" in drawn for mood in Mood)


def test_what_nodes_say_cannot_steer_the_terminal():
    stream = Terminal()
    with FleetProgress(count=1, stream=stream) as progress:
        progress.event("x\x1b[2Jy")
        progress.show(census(Mood.DIALLING, refusal="a\x1b[2Jb"))
        drawn = stream.getvalue()
    assert "\x1b[2J" not in drawn
