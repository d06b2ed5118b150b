"""Endpoints are looked at: what they say of themselves, and what becomes of those that hang."""

from __future__ import annotations

import pytest

from llmgw.gateway import board_layout
from tests.fakes import log_ear
from tests.fakes.clock import FakeClock
from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.looked_at import LookedAt
from tests.fakes.raw_client import post

pytestmark = ON_ONE_LOOP

BUSY = b"""
vllm:num_requests_running 1
vllm:num_requests_waiting 0
vllm:kv_cache_usage_perc 0.5
vllm:request_success_total 7
vllm:prompt_tokens_total 100
vllm:generation_tokens_total 50
"""
BUSY_LLAMACPP = b"""
llamacpp:requests_processing 1
llamacpp:requests_deferred 0
llamacpp:n_decode_total 60
"""


@pytest.fixture
async def looked_at(stage):
    """Makes engines that are looked at ten times a second, on a clock that tests move."""
    stage.tune(scrape_interval=0.1, breaker={"failure_threshold": 1})
    stage.clock = FakeClock()
    engines = []

    async def make(endpoint_id="e1", *, metrics=BUSY, **facts):
        engine = await LookedAt(metrics).start()
        engines.append(engine)
        stage.list_endpoint(endpoint_id, engine.url, **facts)
        return engine

    yield make
    for engine in engines:
        await engine.close()


def told(stage, name, endpoint_id="e1"):
    """A figure of an endpoint, ``None`` where it is not told."""
    found = [
        one.value
        for one in stage.gateway.figures()
        if one.name == f"llmgw_{name}" and one.labels[0] == endpoint_id
    ]
    return found[0] if found else None


async def test_frozen_engine_loses_what_has_no_byte_and_gets_nothing_until_it_answers(
    stage, looked_at
):
    """Silent for ten seconds: the client does not notice, and nobody is blamed."""
    engine = await looked_at(priority=1)
    other = await looked_at("e2")
    other.works.set()
    client = await stage.send(post(ASK))
    await engine.has_request()
    await engine.looked_at(2)
    engine.metrics = engine.health = None
    await engine.looked_at(2)
    stage.clock.advance(9)
    await engine.looked_at(4)
    assert not told(stage, "endpoint_ejected")
    stage.clock.advance(2)
    answer = await client.answer()
    assert (answer.status, answer["x-llmgw-attempts"]) == (200, "2")
    assert stage.failed_attempts == {"no_progress": 1}
    assert not stage.endpoint_stats().is_breaker_open
    assert (await stage.ask())["x-llmgw-attempts"] == "1"
    assert engine.asked == 1
    engine.metrics = engine.health = BUSY
    engine.works.set()
    await stage.until(lambda: not told(stage, "endpoint_ejected"))
    assert (await stage.ask())["x-llmgw-attempts"] == "1"
    assert engine.asked == 2


async def test_engine_that_never_answered_is_taken_out_of_use_as_well(stage, looked_at):
    """A request that came to a black hole before the gateway knew does not wait for ever."""
    engine = await looked_at(priority=1, metrics=None)
    engine.health = None
    other = await looked_at("e2")
    other.works.set()
    client = await stage.send(post(ASK))
    await engine.has_request()
    await engine.looked_at(2)
    stage.clock.advance(11)
    assert (await client.answer())["x-llmgw-attempts"] == "2"


async def test_engine_that_answers_and_works_on_nothing_for_half_a_minute_is_left(stage, looked_at):
    engine = await looked_at(priority=1)
    other = await looked_at("e2", metrics=BUSY.replace(b"running 1", b"running 0"))
    other.works.set()
    client = await stage.send(post(ASK))
    await engine.has_request()
    await engine.looked_at(2)
    stage.clock.advance(31)
    answer = await client.answer()
    assert answer["x-llmgw-attempts"] == "2"
    engine.metrics = engine.metrics.replace(b"total 50", b"total 51")
    await stage.until(lambda: not told(stage, "endpoint_ejected"))


@pytest.mark.parametrize("engine_kind", ["llamacpp", ""], ids=["named", "known by its page"])
async def test_llama_cpp_whose_counters_stand_still_is_left_in_peace(stage, looked_at, engine_kind):
    """They stand still within a long prompt."""
    engine = await looked_at(metrics=BUSY_LLAMACPP, engine=engine_kind)
    client = await stage.send(post(ASK))
    await engine.has_request()
    await engine.looked_at(2)
    for _ in range(20):
        stage.clock.advance(5)
        await engine.looked_at(1)
    engine.works.set()
    answer = await client.answer()
    assert (answer.status, answer["x-llmgw-attempts"]) == (200, "1")


async def test_engine_in_a_long_prompt_is_left_in_peace_as_long_as_its_agent_sees_it_work(
    stage, looked_at
):
    """Its counters stand for over a minute; then its agent sees nothing any more either."""
    engine = await looked_at()
    client = await stage.send(post(ASK))
    await engine.has_request()
    await engine.looked_at(2)
    worked_at = stage.clock.monotonic()
    for _ in range(15):
        stage.clock.advance(5)
        worked_at = stage.clock.monotonic()
        agent_saw(stage, engine, worked_at=worked_at)
        await engine.looked_at(2)
        assert not told(stage, "endpoint_ejected")

    for _ in range(6):
        stage.clock.advance(5)
        agent_saw(stage, engine, worked_at=worked_at)
    await stage.until(lambda: told(stage, "endpoint_ejected"))
    key = board_layout.key_of("e1", engine.url)
    assert stage.gateway._place.board.allotment.traffic(key).is_stalled

    agent_saw(stage, engine, worked_at=stage.clock.monotonic())
    await stage.until(lambda: not told(stage, "endpoint_ejected"))
    engine.works.set()
    assert (await client.answer()).status == 200


async def test_llama_cpp_is_left_when_its_agent_sees_no_work_for_half_a_minute(stage, looked_at):
    engine = await looked_at(metrics=BUSY_LLAMACPP, engine="llamacpp", priority=1)
    other = await looked_at("e2", metrics=BUSY.replace(b"running 1", b"running 0"))
    other.works.set()
    client = await stage.send(post(ASK))
    await engine.has_request()
    await engine.looked_at(2)
    for _ in range(7):
        stage.clock.advance(5)
        agent_saw(stage, engine, worked_at=None)
        await engine.looked_at(1)
    assert (await client.answer())["x-llmgw-attempts"] == "2"


def agent_saw(stage, engine, *, worked_at):
    """What the control plane hears of its agent and writes on the board."""
    stage.gateway._place.board.allotment.worked(
        board_layout.key_of("e1", engine.url),
        worked_at=worked_at,
        looked_at=stage.clock.monotonic(),
    )


async def test_missing_figure_is_told_once_and_once_when_it_comes(stage, looked_at):
    engine = await looked_at(metrics=BUSY.replace(b"kv_cache", b"cache"))
    with log_ear.heard("llmgw.gateway.scraping") as events:
        await stage.start()
        await engine.looked_at(4)
        assert told(stage, "metric_contract_broken") == 1
        assert told(stage, "endpoint_running") == 1
        assert told(stage, "endpoint_kv_cache_usage") is None
        engine.metrics = BUSY
        await engine.looked_at(4)
    assert [(event, keys.get("lacks")) for event, keys in events] == [
        ("metrics_incomplete", "vllm:kv_cache_usage_perc"),
        ("metrics_complete", None),
    ]
    assert told(stage, "endpoint_kv_cache_usage") == 0.5


async def test_failed_looks_make_figures_stale_and_blame_nobody(stage, looked_at):
    """A stale endpoint that is alone is still asked."""
    engine = await looked_at()
    engine.works.set()
    await stage.start()
    await engine.looked_at(3)
    assert not told(stage, "endpoint_metrics_stale")
    engine.metrics = None
    await engine.looked_at(2)
    stage.clock.advance(9)
    await engine.looked_at(4)
    stage.clock.advance(2)
    await stage.until(lambda: told(stage, "endpoint_metrics_stale"))
    assert not stage.endpoint_stats().is_breaker_open
    assert told(stage, "endpoint_running") is None
    assert told(stage, "scrape_failures_total") >= 2
    assert (await stage.ask()).status == 200


async def test_engine_that_answers_no_look_delays_those_at_no_other(stage, looked_at):
    deaf = [await looked_at(f"deaf{n}") for n in range(5)]
    for engine in deaf:
        engine.is_deaf = True
    engine = await looked_at()
    await stage.start()
    await engine.looked_at(5, within_s=1.5)
    assert max(one.probes for one in deaf) == 1


async def test_external_endpoint_is_not_looked_at_and_never_stale(stage, looked_at):
    external = await looked_at("e2", engine="external")
    engine = await looked_at()
    await stage.start()
    await engine.looked_at(5)
    assert external.probes == 0
    assert not told(stage, "endpoint_metrics_stale", "e2")
