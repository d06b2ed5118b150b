"""A model that is loaded when it is asked for: one wish, however many wait."""

from __future__ import annotations

import time

import pytest

from llmgw.domain.routes import ModelState
from tests.fakes.gateway_stage import ASK, MODEL, ON_ONE_LOOP
from tests.fakes.raw_client import post
from tests.fakes.upstream import whole
from tests.fakes.wishes import Wishes

pytestmark = ON_ONE_LOOP


@pytest.fixture
def wishes(stage):
    port = Wishes()
    stage.let_in(load_requests=port, on_demand={"hold_s": 20})
    stage.list_model(MODEL, state=ModelState.ON_DEMAND, is_on_demand=True)
    return port


def held(stage):
    return stage.stats.loads.held.get(MODEL, 0)


async def test_fifty_requests_are_one_wish_and_all_are_served_once_it_is_loaded(stage, wishes):
    clients = [await stage.send(post(ASK)) for _ in range(25)]
    await stage.until(lambda: held(stage) == 25)
    stage.list_model(MODEL, state=ModelState.LOADING, is_on_demand=True, retry_after_s=40)
    clients += [await stage.send(post(ASK)) for _ in range(25)]
    await stage.until(lambda: held(stage) == 50)
    assert wishes.said == ["+m"]
    await stage.engine(answer=whole(b"good"))
    assert {bytes((await client.answer()).body) for client in clients} == {b"good"}
    assert wishes.said == ["+m", "-m"]
    assert stage.stats.loads.results["ready"] == 50


async def test_hold_ends_and_tells_when_to_come_again(stage, wishes):
    stage.let_in(load_requests=wishes, on_demand={"hold_s": 0.3})
    client = await stage.send(post(ASK))
    await stage.until(lambda: held(stage) == 1)
    stage.list_model(MODEL, state=ModelState.LOADING, is_on_demand=True, retry_after_s=40)
    answer = await client.answer()
    assert (answer.status, answer.code, answer["retry-after"]) == (503, "model_loading", "40")
    assert "about 40 s" in answer.error["message"]
    assert wishes.said == ["+m", "-m"]


@pytest.mark.parametrize(
    ("in_s", "told_s"),
    [(75, {"74", "75", "76"}), (-5, {"10"})],
    ids=["expected", "overdue"],
)
async def test_a_client_is_told_when_the_model_will_probably_serve(stage, in_s, told_s):
    stage.list_model(
        MODEL,
        state=ModelState.LOADING,
        retry_after_s=10,
        ready_expected_at=round(time.time() + in_s),
    )
    answer = await stage.ask()
    assert (answer.status, answer.code) == (503, "model_loading")
    assert answer["retry-after"] in told_s
    assert f"about {answer['retry-after']} s" in answer.error["message"]


async def test_load_that_fails_ends_the_hold_with_its_cause(stage, wishes):
    client = await stage.send(post(ASK))
    await stage.until(lambda: held(stage) == 1)
    stage.list_model(MODEL, state=ModelState.FAILED, is_on_demand=True, failure="out of GPU memory")
    answer = await client.answer()
    assert (answer.status, answer.code) == (503, "load_failed")
    assert "out of GPU memory" in answer.error["message"]
    assert (await stage.ask()).code == "load_failed", "the next one is told at once"
    assert wishes.said == ["+m", "-m"]


async def test_last_client_that_leaves_takes_the_wish_with_it(stage, wishes):
    first, last = await stage.send(post(ASK)), await stage.send(post(ASK))
    await stage.until(lambda: held(stage) == 2)
    first.leave()
    await stage.until(lambda: held(stage) == 1)
    assert wishes.said == ["+m"]
    last.leave()
    await stage.until(lambda: held(stage) == 0)
    assert wishes.said == ["+m", "-m"]
    assert stage.states == {"cancelled": 2}


async def test_more_than_may_be_held_are_told_at_once(stage, wishes):
    stage.let_in(load_requests=wishes, on_demand={"hold_max": 1})
    client = await stage.send(post(ASK))
    await stage.until(lambda: held(stage) == 1)
    stage.list_model(MODEL, state=ModelState.LOADING, is_on_demand=True)
    assert (await stage.ask()).code == "model_loading"
    client.leave()


async def test_held_request_is_told_when_the_gateway_stops(stage, wishes):
    client = await stage.send(post(ASK))
    await stage.until(lambda: held(stage) == 1)
    for connection in tuple(stage.gateway._reception.connections):
        connection.cancel()
    assert (await client.answer()).code == "shutting_down"


async def test_four_answers_for_four_kinds_of_absent_model(stage, wishes):
    """No such model, none placed, one being loaded anyway: nothing of it is a wish."""
    stage.list_model("off", state=ModelState.NOT_PLACED)
    stage.list_model("starting", state=ModelState.LOADING)
    codes = {
        name: (await stage.ask({**ASK, "model": name})).code for name in ("typo", "off", "starting")
    }
    assert codes == {"typo": "model_not_found", "off": "no_endpoints", "starting": "model_loading"}
    assert wishes.said == []


async def test_without_anybody_to_load_it_the_answer_comes_at_once(stage):
    stage.list_model(MODEL, state=ModelState.ON_DEMAND, is_on_demand=True)
    assert (await stage.ask()).code == "no_endpoints"
