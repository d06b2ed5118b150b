"""How often, how long and after which pauses a request is tried, and whom breakers spare."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.raw_client import post
from tests.fakes.upstream import Do, whole

ONE_ATTEMPT = {"dispatch": {"max_attempts": 1}}
GOOD = whole(b"good")


async def test_five_attempts_and_never_a_sixth(stage):
    engines = await stage.engines(6, answer=whole(b"no", status=500))
    began_at = asyncio.get_running_loop().time()
    answer = await stage.ask()
    assert (answer.status, answer.body, answer["x-llmgw-attempts"]) == (500, b"no", "5")
    assert sum(len(engine.requests) for engine in engines) == 5
    took_s = asyncio.get_running_loop().time() - began_at
    assert took_s < 0.7, "four pauses would take more than three times as long as one: 0.2 s"


async def test_single_engine_is_tried_again_after_a_pause(stage):
    engine = await stage.engine()
    engine.once(whole(status=500))
    engine.once(whole(b"good"))
    began_at = asyncio.get_running_loop().time()
    answer = await stage.ask()
    took_s = asyncio.get_running_loop().time() - began_at
    assert (answer.body, answer["x-llmgw-attempts"]) == (b"good", "2")
    assert 0.19 < took_s < 3.0
    assert engine.connections == 1, "an answered failure keeps its connection"


@ON_ONE_LOOP
async def test_single_engine_gets_all_five_attempts_with_pauses_that_double(stage):
    """A quarter of a second to two, each a fifth more or less; then it answers for itself."""
    engine = await stage.engine(answer=whole(b"no", status=500))
    client = await stage.send(post(ASK))
    times = []
    for number in range(1, 6):
        await engine.until(lambda number=number: len(engine.requests) >= number, within_s=9)
        times.append(asyncio.get_running_loop().time())
    answer = await client.answer()
    assert (answer.status, answer.body, answer["x-llmgw-attempts"]) == (500, b"no", "5")
    pauses = [later - before for before, later in itertools.pairwise(times)]
    for pause_s, expected_s in zip(pauses, (0.25, 0.5, 1, 2), strict=True):
        assert 0.75 * expected_s < pause_s < 3.6 * expected_s
    assert len(engine.requests) == 5


async def test_engines_that_fail_slowly_use_up_the_deadline_before_the_attempts(stage):
    """At 240 s each: three attempts, and a fourth never begins."""
    stage.clock = clock = FakeClock()
    engines = await stage.engines(5)
    go_on = asyncio.Event()
    for engine in engines:
        engine.always(go_on, whole(status=500))
    client = await stage.send(post(ASK))
    for number in (1, 2, 3):
        await stage.until(
            lambda number=number: sum(len(engine.requests) for engine in engines) == number
        )
        clock.advance(240)
        for engine in engines:
            if engine.playing:
                go_on.set()
                await engine.until(lambda engine=engine: not engine.playing)
        go_on.clear()
    answer = await client.answer()
    assert (answer.status, answer.code, answer["retry-after"]) == (503, "deadline_exceeded", "5")
    assert sum(len(engine.requests) for engine in engines) == 3


@ON_ONE_LOOP
async def test_engine_that_comes_back_is_used_without_waiting_for_the_pause(stage):
    """Row 2: waiting uses no attempt and ends when the table changes; here it would take 1.6 s."""
    engine = await stage.engine(answer=whole(status=500))
    client = await stage.send(post(ASK))
    await engine.asked(4)
    stage.drop_endpoint("e1")
    await stage.until(lambda: stage.stats.table_number == stage.routes.current().number)
    other = await stage.engine("e2", answer=GOOD)
    answer = await client.answer(within_s=1.2)
    assert (answer.body, answer["x-llmgw-attempts"]) == (b"good", "5")
    assert len(other.requests) == 1


async def test_engine_that_comes_back_after_a_minute_costs_one_more_attempt(stage):
    """Looking for an owner again and again meanwhile costs none."""
    stage.clock = clock = FakeClock()
    stage.tune(dispatch={"max_attempts": 2})
    engine = await stage.engine()
    engine.once(whole(status=500))
    engine.once(GOOD)
    facts = stage.endpoints["e1"]
    client = await stage.send(post(ASK))
    await engine.asked()
    stage.drop_endpoint("e1")
    for _ in range(6):
        clock.advance(10)
        await asyncio.sleep(0.1)
    stage.endpoints["e1"] = facts
    stage.publish()
    answer = await client.answer()
    assert (answer.body, answer["x-llmgw-attempts"]) == (b"good", "2")


async def test_endpoint_that_gets_the_model_between_two_rounds_is_used(stage):
    """It was there and did not list it yet: pulling ended in the meantime."""
    stage.tune(dispatch={"max_attempts": 2})
    engine = await stage.engine(answer=whole(status=500))
    pulling = await stage.engine("e2", models=("other",), priority=1, answer=GOOD)
    client = await stage.send(post(ASK))
    await engine.asked()
    await stage.until(lambda: stage.failed_attempts)
    stage.change_endpoint("e2", models=("other", "m"))
    answer = await client.answer(within_s=1)
    assert (answer.body, answer["x-llmgw-attempts"]) == (b"good", "2")
    assert len(pulling.requests) == 1


@pytest.mark.parametrize(
    ("is_gone", "code"), [(True, "no_owner_returned"), (False, "deadline_exceeded")]
)
async def test_after_its_deadline_no_attempt_begins(stage, is_gone, code):
    """Rows 3 and 4: two codes, and the earlier engine's words are gone."""
    stage.clock = clock = FakeClock()
    engine = await stage.engine(answer=whole(b"no", status=500))
    client = await stage.send(post(ASK))
    await engine.asked()
    if is_gone:
        stage.drop_endpoint("e1")
    clock.advance(601)
    answer = await client.answer()
    assert (answer.status, answer.code, answer["retry-after"]) == (503, code, "5")
    assert len(engine.requests) == 1
    assert stage.states == {"failed": 1}


@ON_ONE_LOOP
async def test_attempt_that_begins_a_second_before_the_deadline_may_take_its_half_hour(stage):
    stage.clock = clock = FakeClock()
    engines = await stage.engines(2)
    go_on = [asyncio.Event(), asyncio.Event()]
    for engine in engines:
        engine.always(go_on[0], whole(status=500))
    client = await stage.send(post(ASK))
    await stage.until(lambda: any(engine.requests for engine in engines))
    [second] = [engine for engine in engines if not engine.requests]
    second.always(go_on[1], whole(b"late"))
    clock.advance(599)
    go_on[0].set()
    await second.asked()
    clock.advance(1799)
    await asyncio.sleep(0.3)
    go_on[1].set()
    answer = await client.answer()
    assert (answer.body, answer["x-llmgw-attempts"]) == (b"late", "2")


# The breaker at work


async def test_open_breaker_passes_its_endpoint_over_without_an_attempt(stage):
    """Row 5."""
    stage.tune(breaker={"failure_threshold": 1})
    engine = await stage.engine("e1", priority=1, answer=whole(status=500))
    await stage.engine("e2", answer=GOOD)
    assert (await stage.ask())["x-llmgw-attempts"] == "2"
    for _ in range(3):
        assert (await stage.ask())["x-llmgw-attempts"] == "1"
    assert len(engine.requests) == 1


async def test_open_breaker_lets_one_probe_through_after_its_time(stage):
    stage.clock = clock = FakeClock()
    stage.tune(breaker={"failure_threshold": 1, "open_s": 5})
    engine = await stage.engine("e1", priority=1)
    other = await stage.engine("e2", answer=GOOD)
    go_on = asyncio.Event()
    engine.once(whole(status=500))
    engine.once(go_on, whole(b"back"))
    await stage.ask()
    clock.advance(5.1)
    probe = await stage.send(post(ASK))
    await engine.asked(2)
    assert (await stage.ask()).body == b"good", "a second one meanwhile goes elsewhere"
    go_on.set()
    assert (await probe.answer()).body == b"back"
    assert not stage.endpoint_stats().is_breaker_open
    assert len(other.requests) == 2


async def test_probe_whose_client_leaves_gives_its_permit_back(stage):
    stage.clock = clock = FakeClock()
    stage.tune(breaker={"failure_threshold": 1, "open_s": 5})
    engine = await stage.engine("e1", priority=1)
    await stage.engine("e2", answer=GOOD)
    engine.once(whole(status=500))
    engine.once(Do.HOLD)
    await stage.ask()
    clock.advance(5.1)
    probe = await stage.send(post(ASK))
    await engine.asked(2)
    probe.leave()
    await engine.aborted()
    assert stage.endpoint_stats().is_breaker_open
    assert (await stage.ask()).body == b'{"id":"x"}', "the next one probes"


async def test_with_every_engine_left_alone_a_request_probes_early(stage):
    """A request is never refused because of what earlier ones met."""
    stage.tune(breaker={"failure_threshold": 1, "open_s": 60}, **ONE_ATTEMPT)
    engine = await stage.engine()
    engine.once(whole(status=500))
    await stage.ask()
    assert stage.endpoint_stats().is_breaker_open
    assert (await stage.ask()).status == 200
    assert not stage.endpoint_stats().is_breaker_open


async def test_second_request_during_that_probe_is_told_when_to_come_back(stage):
    stage.tune(breaker={"failure_threshold": 1, "open_s": 60}, **ONE_ATTEMPT)
    engine = await stage.engine()
    engine.once(whole(status=500))
    engine.once(Do.HOLD)
    await stage.ask()
    probe = await stage.send(post(ASK))
    await engine.asked(2)
    answer = await stage.ask()
    assert (answer.status, answer.code) == (503, "no_endpoints")
    assert 1 <= int(answer["retry-after"]) <= 60
    probe.leave()
    await engine.aborted()
