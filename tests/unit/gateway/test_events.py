"""Workload events are in order, bounded, and lose what is least missed first."""

from __future__ import annotations

import io

import orjson
import pytest

from llmgw.gateway import event_stream
from llmgw.gateway.events import Events
from llmgw.gateway.exchange import BodyBudget, Cut, Exchange, State
from llmgw.gateway.line_writer import LineWriter
from llmgw.gateway.usage import Usage

SAME = {"runId": "run", "originatedFrom": "host"}


@pytest.fixture
def exchange():
    made = Exchange(BodyBudget(10**9), 100.0)
    made.request_id, made.model_name = "a", "m"
    made.endpoint_id, made.engine = "e1", "vllm"
    return made


def end(exchange, **changes):
    changes = {
        "sent_at": 100.1,
        "first_byte_at": 100.2,
        "ended_at": 101.2,
        "state": State.COMPLETED,
        "usage": Usage(9, 11),
    } | changes
    for name, value in changes.items():
        setattr(exchange, name, value)


def delivered(events):
    taken = []
    stop = events.subscribe(taken.extend)
    events.deliver()
    stop()
    return taken


def line(event):
    return orjson.loads(event_stream.line_of(event, same=SAME, epoch_at=1000.0))


def test_events_come_in_order_with_rising_numbers(exchange):
    events = Events(run_id="run")
    events.submitted(exchange)
    events.submitted(exchange, scheduled_on="e1")
    events.started(exchange)
    end(exchange)
    events.ended(exchange)
    taken = delivered(events)
    assert [(one.kind, one.state, one.scheduled_on) for one in taken] == [
        ("submitted", "queued", ""),
        ("submitted", "queued", "e1"),
        ("started", "running", "e1"),
        ("completed", "completed", "e1"),
    ]
    assert [one.seq for one in taken] == [1, 2, 3, 4]
    assert delivered(events) == [], "each is given once"


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
def test_failed_and_cancelled_requests_end_as_errored(exchange, state):
    events = Events(run_id="run")
    end(exchange, state=state, usage=None)
    events.ended(exchange)
    [event] = delivered(events)
    assert (event.kind, event.state) == ("errored", state.value)


def test_steps_are_dropped_before_ends_and_counted(exchange):
    events = Events(run_id="run", most_waiting=100)
    end(exchange)
    for _ in range(60):
        events.ended(exchange)
        events.submitted(exchange)
    taken = delivered(events)
    assert len(taken) + events.dropped == 120
    assert events.dropped
    assert len([one for one in taken if one.is_end]) == 60


def test_memory_is_bounded_also_where_there_are_nothing_but_ends(exchange):
    events = Events(run_id="run", most_waiting=100)
    end(exchange)
    for _ in range(1000):
        events.ended(exchange)
    taken = delivered(events)
    assert len(taken) <= 100
    assert taken[-1].seq == 1000
    assert events.dropped == 1000 - len(taken)


def test_line_of_an_end_has_the_figures(exchange):
    events = Events(run_id="run")
    end(exchange, usage=Usage(9, 11, is_estimated=True), cut=Cut.LOST)
    events.ended(exchange)
    [event] = delivered(events)
    assert line(event) == {
        "event": "completed",
        "id": "a",
        "seq": 1,
        "state": "completed",
        "model": "m",
        "engine": "vllm",
        "scheduledOn": "e1",
        "createdAt": 1_100_000,
        "startedAt": 1_100_200,
        "completedAt": 1_101_200,
        "stats": {
            "promptTokens": 9,
            "completionTokens": 11,
            "ttftMs": 100.0,
            "tokensPerSecond": 10.0,
            "estimated": True,
            "truncated": True,
        },
        **SAME,
    }


def test_figures_are_only_on_ends_and_absent_where_nothing_was_measured(exchange):
    events = Events(run_id="run")
    events.submitted(exchange)
    end(exchange, usage=None, state=State.FAILED)
    events.ended(exchange)
    assert all("stats" not in line(event) for event in delivered(events))


def test_lines_that_find_the_writer_too_far_behind_are_counted():
    writer = LineWriter(io.StringIO, name="test")
    for _ in range(70_000):
        writer.add("x\n")
    assert 0 < writer.dropped_lines < 70_000


def test_file_that_cannot_be_opened_stops_nothing(tmp_path):
    writer = LineWriter((tmp_path / "nowhere" / "file").open, name="test")
    writer.start()
    writer.add("x\n")
    writer.close()
    assert writer.dropped_lines == 1


def test_file_of_our_own_that_cannot_be_written_is_said_once(tmp_path, caplog):
    writer = LineWriter((tmp_path / "nowhere" / "file").open, name="test", closes=True)
    writer.start()
    for _ in range(3):
        writer.add("x\n")
        writer.flush()
    writer.close()
    [said] = [one.keys for one in caplog.records if one.message == "lines_not_written"]
    assert said["writer"] == "test"
    assert "nowhere" in said["error"]
