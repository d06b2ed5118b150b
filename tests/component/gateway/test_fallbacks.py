"""A model without capacity lets another take its requests: before the first byte, and once."""

from __future__ import annotations

import asyncio

from llmgw.config.entering import BandSettings
from llmgw.domain.routes import ModelState
from tests.fakes.gateway_stage import ASK, MODEL, ON_ONE_LOOP
from tests.fakes.looked_at import LookedAt
from tests.fakes.raw_client import post
from tests.fakes.upstream import EVENTS, chunk, event, stream, whole

pytestmark = ON_ONE_LOOP

FULL = b"vllm:num_requests_running 1\nvllm:num_requests_waiting 9\nvllm:request_success_total 3\n"


def with_fallback(stage, *names, **facts):
    stage.list_model(MODEL, fallbacks=names or ("small",), **facts)
    for name in names or ("small",):
        stage.list_model(name)


async def test_model_without_endpoint_is_served_by_its_fallback_and_says_so(stage):
    with_fallback(stage, state=ModelState.NOT_PLACED)
    engine = await stage.engine(models=("small",), answer=stream("hi"))
    answer = await stage.ask({**ASK, "stream": True})
    assert (answer.status, answer["x-llmgw-served-model"]) == (200, "small")
    assert engine.requests[0].json["model"] == "small"
    assert stage.stats.fallbacks == {("m", "small", "no_endpoints"): 1}


async def test_first_fallback_that_can_take_it_does(stage):
    with_fallback(stage, "gone", "short", "small", state=ModelState.NOT_PLACED)
    stage.list_model("short", context_length=10)
    await stage.engine("e1", models=("short",))
    engine = await stage.engine("e2", models=("small",), answer=whole(b"good"))
    long = {"model": MODEL, "messages": [{"role": "user", "content": "x" * 200}]}
    assert (await stage.ask(long))["x-llmgw-served-model"] == "small"
    assert len(engine.requests) == 1


async def test_fallback_of_a_fallback_is_not_asked(stage):
    with_fallback(stage, state=ModelState.NOT_PLACED)
    stage.list_model("small", fallbacks=("tiny",), state=ModelState.NOT_PLACED)
    stage.list_model("tiny")
    engine = await stage.engine(models=("tiny",))
    assert (await stage.ask()).code == "no_endpoints"
    assert engine.requests == []


async def test_model_that_loses_its_only_engine_falls_back_and_counts_on(stage):
    with_fallback(stage)
    engine = await stage.engine()
    engine.always(asyncio.Event())
    other = await stage.engine("e2", models=("small",), answer=whole(b"good"))
    client = await stage.send(post(ASK))
    await engine.asked()
    stage.drop_endpoint("e1")
    answer = await client.answer()
    assert (answer.body, answer["x-llmgw-served-model"]) == (b"good", "small")
    assert answer["x-llmgw-attempts"] == "2"
    assert len(other.requests) == 1


async def test_engines_that_fail_are_tried_again_before_another_model_is(stage):
    """A model that has an owner has capacity: its own later attempts come first."""
    with_fallback(stage)
    engine = await stage.engine()
    engine.once(whole(status=500))
    engine.once(whole(b"good"))
    await stage.engine("e2", models=("small",))
    answer = await stage.ask()
    assert (answer.body, answer["x-llmgw-served-model"]) == (b"good", MODEL)


async def test_request_that_waited_in_vain_falls_back(stage):
    stage.tune(scrape_interval=0.05)
    stage.let_in(bands=(BandSettings(name="gold", max_wait_s=0.4),))
    with_fallback(stage)
    full = await LookedAt(FULL).start()
    try:
        stage.list_endpoint("e1", full.url)
        other = LookedAt(FULL.replace(b"9", b"0"))
        await other.start()
        other.works.set()
        stage.list_endpoint("e2", other.url, models=("small",))
        await stage.client()
        await full.looked_at(3)
        answer = await stage.ask()
        assert (answer.status, answer["x-llmgw-served-model"]) == (200, "small")
        assert stage.stats.admission.rejected == {"gold": 0}
        assert full.asked == 0
    finally:
        await full.close()
        await other.close()


async def test_answer_that_has_begun_never_changes_its_model(stage):
    with_fallback(stage)
    engine = await stage.engine()
    engine.always(EVENTS + chunk(event("a")), asyncio.Event())
    await stage.engine("e2", models=("small",))
    client = await stage.send(post({**ASK, "stream": True}))
    await client.got(event("a"))
    stage.drop_endpoint("e1")
    assert stage.stats.fallbacks == {}
    client.leave()
