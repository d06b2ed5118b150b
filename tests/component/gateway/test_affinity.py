"""Sessions and prompts that begin alike keep to an endpoint, as clients and engines see it."""

from __future__ import annotations

import pytest

from llmgw.gateway.prefix import Following
from tests.fakes.gateway_stage import ASK, MODEL, Stage
from tests.fakes.raw_client import post
from tests.fakes.upstream import stream, whole

LONG = "You are the assistant of a small library in the mountains. " * 5
PREFIX = {"prefix": {"enabled": True}}


def ask(text="hi", **fields):
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}


def asked(engines):
    return [len(engine.requests) for engine in engines]


async def once_each(stage, engines, *asks):
    """How many requests each engine got for these bodies and header lines."""
    before = asked(engines)
    for body, *fields in asks:
        assert (await stage.ask(body, *fields)).status == 200
    return sorted(after - was for after, was in zip(asked(engines), before, strict=True))


@pytest.mark.parametrize(
    "how",
    [
        (ask(), "X-Session-Id: s1"),
        (ask(user="u1"),),
        (ask(prompt_cache_key="k1"),),
        (ask("x" * 20_000, user="u1"),),
    ],
    ids=["header", "user", "prompt_cache_key", "large body"],
)
async def test_requests_of_one_session_go_to_one_engine(stage, how):
    engines = await stage.engines(5, answer=whole())
    assert await once_each(stage, engines, *[how] * 12) == [0, 0, 0, 0, 12]


async def test_requests_without_session_are_spread(stage):
    engines = await stage.engines(3, answer=whole())
    assert (await once_each(stage, engines, *[(ask(),)] * 30))[0] > 2


async def test_header_goes_before_the_body_and_the_cache_key_before_the_user(stage):
    engines = await stage.engines(8, answer=whole())

    async def engine_of(body, *fields):
        before = asked(engines)
        await stage.ask(body, *fields)
        [index] = [n for n, count in enumerate(asked(engines)) if count > before[n]]
        return index

    for number in range(10):
        name, other = f"s{number}", f"t{number}"
        home = await engine_of(ask(user=name))
        assert await engine_of(ask(user=other), f"x-session-id: {name}") == home
        assert await engine_of(ask(user=other, prompt_cache_key=name)) == home


async def test_session_header_has_the_name_that_is_set(stage):
    stage.tune(session_header="X-Conversation")
    engines = await stage.engines(5, answer=whole())
    assert await once_each(stage, engines, *[(ask(), "x-conversation: c")] * 12) == [0, 0, 0, 0, 12]


@pytest.mark.parametrize("field", ["user", "prompt_cache_key"])
async def test_session_name_that_is_no_text_is_passed_on_and_names_none(stage, field):
    engine = await stage.engine(answer=whole())
    await stage.ask(ask(**{field: {"id": 7}}))
    assert engine.requests[0].json[field] == {"id": 7}


async def test_two_workers_send_a_session_to_the_same_engine(stage):
    engines = await stage.engines(5, answer=whole())
    second = Stage()
    for endpoint_id, endpoint in stage.endpoints.items():
        second.list_endpoint(endpoint_id, endpoint.url)
    await second.start()
    try:
        for number in range(10):
            how = (ask(), f"x-session-id: s{number}")
            before = asked(engines)
            await stage.ask(*how)
            await second.ask(*how)
            assert max(n - was for n, was in zip(asked(engines), before, strict=True)) == 2
    finally:
        for client in second._clients:
            client.leave()
        await second.gateway.close()


async def test_session_whose_home_is_gone_is_served_elsewhere_without_an_error(stage):
    engines = await stage.engines(3, answer=whole())
    how = (ask(), "x-session-id: s1")
    await stage.ask(*how)
    [home] = [n for n, engine in enumerate(engines) if engine.requests]
    await engines[home].close()
    answers = [await stage.ask(*how) for _ in range(6)]
    assert [answer.status for answer in answers] == [200] * 6


async def test_prompts_that_begin_alike_go_to_one_engine(stage):
    stage.tune(**PREFIX)
    engines = await stage.engines(5, answer=whole())
    asks = [(ask(LONG + f"Question {n}."),) for n in range(20)]
    assert await once_each(stage, engines, *asks) == [0, 0, 0, 0, 20]
    assert stage.stats.prefix_decisions == {
        Following.CACHE_HIT: 19,
        Following.CACHE_MISS_MIN_LOAD: 1,
        Following.LOAD_BALANCE_OVERRIDE: 0,
        Following.NO_PREFIX: 0,
        Following.SESSION_HOME: 0,
    }


async def test_streams_teach_the_tree_too(stage):
    stage.tune(**PREFIX)
    engines = await stage.engines(5, answer=stream("a", "b"))
    asks = [(ask(LONG + f"Question {n}.", stream=True),) for n in range(8)]
    assert await once_each(stage, engines, *asks) == [0, 0, 0, 0, 8]


async def test_prefix_is_not_looked_at_unless_it_is_switched_on(stage):
    engines = await stage.engines(3, answer=whole())
    asks = [(ask(LONG + f"Question {n}."),) for n in range(30)]
    assert (await once_each(stage, engines, *asks))[0] > 2
    assert stage.stats.prefix_decisions == {}
    assert stage.stats.prefix_nodes == 0


async def test_every_request_is_counted_once_however_often_it_is_tried(stage):
    stage.tune(**PREFIX)
    await stage.engine("e1", answer=whole(b"no", status=500))
    good = await stage.engine("e2", answer=whole())
    for number in range(12):
        assert (await stage.ask(ask(LONG + f"Question {number}."))).status == 200
    assert (await stage.ask(ask("short"))).status == 200
    assert sum(stage.stats.prefix_decisions.values()) == 13
    assert stage.stats.prefix_decisions[Following.NO_PREFIX] == 1
    assert len(good.requests) == 13


@pytest.mark.parametrize("status", [500, 400], ids=["retried", "passed on"])
async def test_attempt_that_failed_teaches_nothing(stage, status):
    stage.tune(dispatch={"max_attempts": 1}, **PREFIX)
    await stage.engine(answer=whole(b"no", status=status))
    for _ in range(3):
        assert (await stage.ask(ask(LONG))).status == status
    assert stage.stats.prefix_nodes == 0
    assert stage.stats.prefix_decisions[Following.CACHE_HIT] == 0


async def test_embeddings_follow_no_prefix(stage):
    stage.tune(**PREFIX)
    await stage.engine(answer=whole())
    client = await stage.send(post({"model": MODEL, "input": LONG}, path="/v1/embeddings"))
    assert (await client.answer()).status == 200
    assert sum(stage.stats.prefix_decisions.values()) == 0


async def test_engine_that_came_back_under_another_address_has_nothing_cached(stage):
    stage.tune(**PREFIX)
    await stage.engine(answer=whole())
    await stage.ask(ask(LONG))
    await stage.engine(answer=whole())
    await stage.ask(ask(LONG))
    assert stage.stats.prefix_decisions[Following.CACHE_HIT] == 0
    assert stage.stats.prefix_decisions[Following.CACHE_MISS_MIN_LOAD] == 2


async def test_no_header_changes_how_endpoints_are_weighed(stage):
    """With the profile of debugging the first by name answers, whatever a client says."""
    stage.list_model(MODEL, routing_profile="debug")
    engines = await stage.engines(4, answer=whole())
    fields = ["x-llmgw-profile: chat", "x-routing-profile: chat", "x-session-id: s1"]
    for _ in range(10):
        assert (await stage.ask(ASK, *fields)).status == 200
    assert asked(engines) == [10, 0, 0, 0]


async def test_models_without_profile_are_weighed_by_the_default(stage):
    stage.tune(default_profile="debug")
    engines = await stage.engines(4, answer=whole())
    for _ in range(10):
        assert (await stage.ask()).status == 200
    assert asked(engines) == [10, 0, 0, 0]
