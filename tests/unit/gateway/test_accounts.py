"""Each request that ended is counted once and written as one line that holds no text of it."""

from __future__ import annotations

import io
import re

import orjson
import pytest

from llmgw.gateway.exchange import BodyBudget, Cut, Exchange, State
from llmgw.gateway.metering import TTFT_EDGES_S, UNKNOWN_MODEL, Meter
from llmgw.gateway.replies import Code
from llmgw.gateway.request_log import RequestLog
from llmgw.gateway.usage import Usage


def served(**changes):
    exchange = Exchange(BodyBudget(0), 1000.0)
    facts = {
        "request_id": "req-1",
        "method": b"POST",
        "path": b"/v1/chat/completions",
        "model_name": "m",
        "status": 200,
        "state": State.COMPLETED,
        "attempts": 1,
        "endpoint_id": "e1",
        "first_sent_at": 1000.0105,
        "sent_at": 1000.0105,
        "first_byte_at": 1000.051,
        "ended_at": 1000.2505,
        "is_stream": True,
        "events": 7,
    }
    for name, value in (facts | changes).items():
        setattr(exchange, name, value)
    return exchange


def refused(**changes):
    return served(
        **{
            "path": b"/v1/nothing",
            "model_name": "",
            "status": 404,
            "state": State.FAILED,
            "code": Code.NOT_FOUND,
            "attempts": 0,
            "endpoint_id": "",
            "first_sent_at": 0.0,
            "sent_at": 0.0,
            "first_byte_at": 0.0,
            "is_stream": False,
            "events": 0,
        }
        | changes
    )


def lines_of(clock, *exchanges, as_json=False):
    stream = io.StringIO()
    log = RequestLog(stream=stream, as_json=as_json, clock=clock)
    log.start()
    for exchange in exchanges:
        log.add(exchange)
    log.close()
    return stream.getvalue().splitlines()


def test_requests_are_counted_by_model_and_status():
    meter = Meter()
    for exchange in (served(), served(), served(status=500, state=State.FAILED), refused()):
        meter.record(exchange)
    stats = meter.stats()
    assert stats.requests == {("m", 200): 2, ("m", 500): 1, (UNKNOWN_MODEL, 404): 1}
    assert stats.states == {State.COMPLETED: 2, State.FAILED: 2, State.CANCELLED: 0}
    assert stats.events == 21


def test_time_to_first_token_falls_into_its_bucket():
    meter = Meter()
    meter.record(served())
    meter.record(served(first_byte_at=1900.0))
    meter.record(refused())
    counts = meter.stats().by_model["m"].ttft_buckets
    assert sum(counts) == 2
    assert counts[TTFT_EDGES_S.index(0.05)] == 1
    assert counts[-1] == 1


def test_stats_are_a_copy():
    meter = Meter()
    before = meter.stats()
    meter.record(served())
    assert before.requests == {}


def test_broken_answer_is_counted_as_truncated():
    meter = Meter()
    meter.record(served(cut=Cut.LOST, events=0))
    assert meter.stats().truncated == 1


def test_line_for_people_tells_what_was_asked_and_how_it_went(clock):
    [line] = lines_of(clock, served())
    stamp, text = line.split(" ", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stamp)
    assert text == (
        "info    request request_id=req-1 method=POST path=/v1/chat/completions model=m status=200"
        " state=completed endpoint=e1 attempts=1 queue_ms=10 ttft_ms=40 stream=yes events=7"
        " total_ms=250"
    )


def test_line_tells_what_a_request_cost_and_what_broke_it(clock):
    [line] = lines_of(clock, served(usage=Usage(9, 4, 8, is_estimated=True), cut=Cut.STUCK))
    assert (
        " events=7 truncated=stuck prompt_tokens=9 completion_tokens=4 cached_tokens=8"
        " estimated=yes total_ms=250"
    ) in line


def test_line_of_a_refusal_has_its_code_and_no_figure_of_what_never_was(clock):
    [line] = lines_of(clock, refused())
    assert 'path="/v1/nothing" status=404 code=not_found state=failed total_ms=250' in line


def test_line_of_a_request_that_no_engine_answered_tells_of_its_attempts(clock):
    [line] = lines_of(
        clock,
        served(
            status=502,
            state=State.FAILED,
            code=Code.UPSTREAM_UNREACHABLE,
            attempts=5,
            first_byte_at=0.0,
            is_stream=False,
        ),
    )
    assert (
        "status=502 code=upstream_unreachable state=failed endpoint=e1 attempts=5 queue_ms=10"
        " total_ms=250"
    ) in line


@pytest.mark.parametrize(
    "path", [b"/a\nb", b"/a b=c", b"/\xff\x00", b"/" + b"a" * 9999], ids=range(4)
)
def test_path_of_a_client_stays_one_short_word_of_one_line(clock, path):
    [line] = lines_of(clock, refused(path=path))
    assert len(line) < 1000
    [as_json] = lines_of(clock, refused(path=path), as_json=True)
    assert len(orjson.loads(as_json)["path"]) <= 256


def test_both_formats_carry_the_same_figures(clock):
    cases = [
        served(),
        served(cut=Cut.LOST),
        served(cut=Cut.LOST, is_stream=False, events=0),
        refused(),
        served(is_stream=False, events=0),
        served(usage=Usage(9, 4)),
        served(usage=Usage(9, 4, 0, is_estimated=True), lacks_done=True),
        served(fell_back_from="large"),
    ]
    plain = lines_of(clock, *cases)
    as_json = lines_of(clock, *cases, as_json=True)
    for line, fields in zip(plain, map(orjson.loads, as_json), strict=True):
        words = set(re.findall(r" (\w+)=", line))
        for name in ("at", "level", "event"):
            del fields[name]
        fields.pop("stream", None)
        assert words - {"stream"} == set(fields)


def test_json_line_has_the_wall_clock_of_the_end(clock):
    [line] = lines_of(clock, served(), as_json=True)
    assert orjson.loads(line)["at"] == pytest.approx(clock.wall() + 0.2505)


def test_lines_that_find_the_writer_too_far_behind_are_counted(clock):
    log = RequestLog(stream=io.StringIO(), as_json=False, clock=clock)
    for _ in range(70_000):
        log.add(served())
    assert 0 < log.dropped_lines < 70_000


def test_reader_that_is_gone_stops_nothing(clock):
    stream = io.StringIO()
    stream.close()
    log = RequestLog(stream=stream, as_json=False, clock=clock)
    log.start()
    log.add(served())
    log.close()
    assert log.dropped_lines == 1


def test_probe_is_counted_and_leaves_no_line():
    written = []
    meter = Meter(write=written.append)
    meter.record(refused(is_probe=True, path=b"/health", status=200))
    assert written == []
    assert meter.stats().requests == {(UNKNOWN_MODEL, 200): 1}
