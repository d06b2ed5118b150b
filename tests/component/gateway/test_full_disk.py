"""A disk that is full costs lines of logs, counted and said once, and no request."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from llmgw.gateway.request_log import RequestLog
from tests.fakes.gateway_stage import ON_ONE_LOOP

FULL = "/dev/full"


@pytest.fixture
def full_stream():
    stream = Path(FULL).open("w")  # noqa: SIM115 - its end fails, for it has lines left
    yield stream
    with contextlib.suppress(OSError):
        stream.close()


@ON_ONE_LOOP
async def test_full_disk_under_events_and_log_is_counted_and_said_once(
    full_stream, stage, logged_errors
):
    stage.tune(events_file=FULL)
    stage.request_log = RequestLog(stream=full_stream, as_json=False, clock=stage.clock)
    await stage.engine()
    for served in (1, 2):
        assert (await stage.ask()).status == 200
        await stage.until(lambda served=served: stage.stats.dropped_log_lines == served)
    await stage.until(lambda: stage.stats.dropped_events >= 4)
    assert stage.states == {"completed": 2}
    await stage.gateway.close()
    assert logged_errors == ["lines_not_written"]
    logged_errors.clear()
