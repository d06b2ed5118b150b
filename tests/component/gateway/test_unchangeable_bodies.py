"""A body that is read far enough to be routed and cannot be changed is its client's mistake."""

from __future__ import annotations

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.gateway_stage import ON_ONE_LOOP
from tests.fakes.upstream import whole

NO_TEXT = b'{"model":"alias","\xff":1}'
NO_TEXT_IN_OPTIONS = b'{"model":"m","stream":true,"stream_options":{},"\xff":1}'
DEEP = b'{"model":"alias","x":' + b"[" * 980 + b"]" * 980 + b"}"
"""About as many levels as Python calls itself, of which fewer are left where it is changed."""


@pytest.mark.parametrize("body", [NO_TEXT, NO_TEXT_IN_OPTIONS], ids=["a name", "options"])
async def test_body_that_cannot_be_changed_is_a_400_and_nothing_is_sent(stage, body):
    stage.list_model("m", aliases=("alias",))
    engine = await stage.engine()
    answer = await stage.ask(body)
    assert (answer.status, answer.code) == (400, "invalid_json")
    assert engine.requests == []
    assert (await stage.ask()).status == 200
    await stage.settled()
    assert stage.endpoint_stats().inflight == 0


async def test_body_nested_deep_is_no_fault_of_ours_when_its_model_is_renamed(stage):
    stage.list_model("m", aliases=("alias",))
    await stage.engine()
    assert (await stage.ask(DEEP)).status in {200, 400}


async def test_figures_nested_deep_in_an_answer_are_not_believed(stage):
    deep = b'{"usage":{"prompt_tokens":7,"x":' + b"[" * 1010 + b"]" * 1010 + b"}}"
    await stage.engine(answer=whole(deep))
    answer = await stage.ask()
    assert (answer.status, answer.body) == (200, deep)
    assert stage.states == {"completed": 1}


@ON_ONE_LOOP
async def test_probe_that_was_never_sent_lets_another_request_probe(stage):
    stage.clock = clock = FakeClock()
    stage.tune(breaker={"failure_threshold": 1}, dispatch={"max_attempts": 1})
    stage.list_model("m", aliases=("alias",))
    engine = await stage.engine()
    engine.once(whole(status=500))
    assert (await stage.ask()).status == 500
    assert stage.endpoint_stats().is_breaker_open
    clock.advance(10)
    assert (await stage.ask(NO_TEXT)).status == 400
    assert (await stage.ask()).status == 200
    assert not stage.endpoint_stats().is_breaker_open


async def test_body_of_more_values_than_anybody_asks_for_is_not_changed(stage):
    stage.list_model("m", aliases=("alias",))
    engine = await stage.engine()
    keys = b",".join(b'"k%d":{}' % number for number in range(110_000))
    answer = await stage.ask(b'{"model":"alias",' + keys + b"}")
    assert (answer.status, answer.code) == (400, "invalid_json")
    assert (await stage.ask(b'{"model":"m",' + keys + b"}")).status == 200
    assert len(engine.requests) == 1
