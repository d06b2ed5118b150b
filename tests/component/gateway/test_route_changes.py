"""A new table takes over at once: what has begun goes on, what has not goes elsewhere."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from llmgw.domain.routes import EndpointState
from tests.fakes.gateway_stage import ASK
from tests.fakes.raw_client import End, post
from tests.fakes.upstream import CHUNKED, DONE, END, EVENTS, Do, chunk, event, head, whole


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((), id="before any answer"),
        pytest.param((b"HTTP/1.1 200 OK\r\n",), id="within the head"),
        pytest.param((CHUNKED,), id="after the head"),
        pytest.param((CHUNKED + b"5\r\n",), id="after a chunk's size"),
    ],
)
@pytest.mark.parametrize("how", ["leaves", "moves", "serves another model"])
async def test_attempt_at_an_endpoint_that_leaves_is_given_up_and_made_elsewhere(stage, steps, how):
    """Row 19: within a moment, the attempt counts, nobody is blamed."""
    stage.tune(breaker={"failure_threshold": 1})
    engine = await stage.engine("e1", priority=1)
    other = await stage.engine("e2")
    engine.always(*steps, Do.HOLD)
    client = await stage.send(post(ASK))
    await engine.asked()
    await asyncio.sleep(0.02)
    if how == "leaves":
        stage.drop_endpoint("e1")
    elif how == "moves":
        stage.change_endpoint("e1", url=f"{other.url}/moved", priority=-1)
    else:
        stage.change_endpoint("e1", models=("other",))
    answer = await client.answer(within_s=1)
    assert (answer.status, answer["x-llmgw-attempts"]) == (200, "2")
    await engine.aborted(within_s=1)
    assert stage.failed_attempts == {"endpoint_left": 1}
    assert not any(one.is_breaker_open for one in stage.stats.endpoints)


async def test_fifth_attempt_at_an_endpoint_that_leaves_is_a_502(stage):
    stage.tune(dispatch={"max_attempts": 1})
    engine = await stage.engine()
    engine.always(Do.HOLD)
    client = await stage.send(post(ASK))
    await engine.asked()
    stage.drop_endpoint("e1")
    answer = await client.answer()
    assert (answer.status, answer.code) == (502, "upstream_unreachable")


async def test_stream_that_has_begun_outlives_its_endpoint_in_the_table(stage):
    """A byte proves more than a missing line."""
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.always(EVENTS + chunk(event("a")), go_on, chunk(event("b")) + chunk(DONE) + END)
    client = await stage.send(post(ASK))
    await client.got(event("a"))
    stage.drop_endpoint("e1")
    await asyncio.sleep(0.02)
    assert engine.aborts == 0
    go_on.set()
    answer = await client.answer()
    assert answer.body == event("a") + event("b") + DONE
    assert stage.states == {"completed": 1}
    await engine.until(lambda: not engine.open)


async def test_first_byte_alone_is_a_commit_and_comes_once_and_first(stage):
    engine = await stage.engine("e1", priority=1)
    other = await stage.engine("e2")
    go_on = asyncio.Event()
    engine.always(head(200, "Content-Length: 5"), 0.02, b"h", go_on, b"ello")
    client = await stage.send(post(ASK))
    await client.got(b"\r\n\r\nh")
    stage.drop_endpoint("e1")
    await asyncio.sleep(0.02)
    go_on.set()
    answer = await client.answer()
    assert (answer.body, answer["x-llmgw-attempts"]) == (b"hello", "1")
    assert client.raw.endswith(b"\r\n\r\nhello")
    assert other.connections == 0


async def test_draining_endpoint_keeps_what_it_has_and_gets_nothing_new(stage):
    """A request that waits for its first byte there goes on as well."""
    engine = await stage.engine("e1", priority=1)
    other = await stage.engine("e2", answer=whole(b"other"))
    go_on = asyncio.Event()
    engine.always(go_on, whole(b"mine"))
    client = await stage.send(post(ASK))
    await engine.asked()
    stage.change_endpoint("e1", state=EndpointState.DRAINING)
    assert (await stage.ask()).body == b"other"
    go_on.set()
    assert (await client.answer()).body == b"mine"
    assert (len(engine.requests), len(other.requests)) == (1, 1)


async def test_endpoint_that_stays_keeps_its_count_its_breaker_and_its_connections(stage):
    stage.tune(dispatch={"max_attempts": 1}, breaker={"failure_threshold": 1, "open_s": 60})
    kept = await stage.engine("kept")
    failing = await stage.engine("failing", models=("f",))
    stage.list_model("f")
    failing.always(Do.CLOSE)
    await stage.ask({"model": "f"})
    await stage.ask()
    kept.once(Do.HOLD)
    client = await stage.send(post(ASK))
    await kept.asked(2)
    await stage.ask()
    before = stage.stats.endpoints
    assert [(one.inflight, one.idle_connections) for one in before] == [(1, 1), (0, 0)]
    assert [one.is_breaker_open for one in before] == [False, True]
    stage.change_endpoint("kept", weight=2.0, pool="other")
    stage.publish()
    assert stage.stats.endpoints == before
    await stage.ask()
    assert kept.connections == 2
    client.leave()
    await kept.aborted()


async def test_endpoint_under_another_address_begins_afresh(stage):
    stage.tune(dispatch={"max_attempts": 1}, breaker={"failure_threshold": 1, "open_s": 60})
    old = await stage.engine("e1")
    new = await stage.engine("e2", models=("other",))
    old.always(Do.CLOSE)
    await stage.ask()
    assert stage.endpoint_stats("e1").is_breaker_open
    stage.change_endpoint("e1", url=new.url)
    assert not stage.endpoint_stats("e1").is_breaker_open
    assert (await stage.ask()).status == 200
    assert (len(old.requests), len(new.requests)) == (1, 1)


async def test_endpoint_that_left_and_came_back_is_used_again(stage):
    engine = await stage.engine()
    await stage.ask()
    facts = stage.endpoints["e1"]
    stage.drop_endpoint("e1")
    assert (await stage.ask()).code == "no_endpoints"
    await engine.until(lambda: not engine.open)
    stage.endpoints["e1"] = facts
    stage.publish()
    assert (await stage.ask()).status == 200


async def test_endpoint_with_an_impossible_address_harms_no_other(stage, logged_errors):
    await stage.engine("e1")
    for number, url in enumerate(("http://host:port", "ftp://host", "host:80", "http://")):
        stage.list_endpoint(f"bad{number}", url)
    assert (await stage.ask()).status == 200
    assert set(logged_errors) == {"endpoint_refused"}
    logged_errors.clear()


async def test_request_keeps_the_model_that_it_began_with(stage):
    """Whatever table comes meanwhile."""
    engine = await stage.engine()
    go_on = asyncio.Event()
    engine.always(go_on, whole())
    stage.list_model("m", aliases=("alias",))
    client = await stage.send(post({"model": "alias"}))
    await engine.asked()
    stage.list_model("m2", aliases=("alias",))
    stage.list_model("m", aliases=())
    go_on.set()
    assert (await client.answer())["x-llmgw-served-model"] == "m"


async def test_tables_that_change_all_the_time_fail_no_request(stage):
    """Endpoints come and go under load; one of two is always there."""
    # A loss costs an attempt; a starved machine must not lose one request five times over.
    stage.tune(dispatch={"max_attempts": 20})
    engines = await stage.engines(2)
    for engine in engines:
        engine.always(0.002, EVENTS + chunk(event("a")), 0.01, chunk(DONE) + END)
    facts = dict(stage.endpoints)
    await stage.start()

    async def churn():
        for name in itertools.cycle(("e1", "e2")):
            stage.endpoints = {name: facts[name]}
            stage.publish()
            await asyncio.sleep(0.03)
            stage.endpoints = dict(facts)
            stage.publish()
            await asyncio.sleep(0.03)

    churning = asyncio.create_task(churn())
    answers = []
    for _ in range(10):
        clients = [await stage.send(post(ASK)) for _ in range(20)]
        answers += [await client.answer() for client in clients]
    churning.cancel()
    await asyncio.wait([churning])
    assert {answer.status for answer in answers} == {200}
    assert all(answer.is_complete for answer in answers)


# The race of the first byte and the loss of the endpoint


async def race(stage, engine, *, byte_first, turns):
    """One request whose first byte and whose endpoint's leaving fall together."""
    go = asyncio.Event()
    engine.once(head(200, "Content-Length: 6"), go, b"m", b"ine..")
    client = await stage.send(post(ASK))
    await engine.asked(len(engine.requests) + 1)
    await asyncio.sleep(0)
    steps = [go.set, lambda: stage.drop_endpoint("e1")]
    for step in steps if byte_first else reversed(steps):
        step()
        for _ in range(turns):
            await asyncio.sleep(0)
    answer = await client.answer()
    client.leave()
    return bytes(answer.body), answer["x-llmgw-attempts"]


async def test_of_a_first_byte_and_the_loss_of_its_endpoint_exactly_one_wins(stage):
    """Rows 11, 19 and 20: never both, never neither."""
    engine = await stage.engine("e1", priority=1)
    other = await stage.engine("e2", answer=whole(b"others"))
    facts = stage.endpoints["e1"]
    won = []
    for number in range(200):
        stage.endpoints["e1"] = facts
        stage.publish()
        elsewhere = len(other.requests)
        outcome = await race(stage, engine, byte_first=bool(number % 2), turns=number % 6)
        assert outcome in {(b"mine..", "1"), (b"others", "2")}, number
        assert len(other.requests) - elsewhere == int(outcome[1]) - 1
        won.append(outcome[0])
    assert {b"mine..", b"others"} == set(won)
    await stage.settled()
    assert stage.states == {"completed": 200}
    assert engine.aborts == won.count(b"others")


async def test_of_a_first_byte_and_a_client_that_leaves_nothing_remains(stage):
    """Row 22 or 23, whichever comes first."""
    engine = await stage.engine()
    await stage.start()
    for number in range(100):
        go = asyncio.Event()
        engine.once(EVENTS, go, chunk(event("a")), 0.01, chunk(DONE), Do.HOLD)
        client = await stage.send(post(ASK))
        await engine.asked(number + 1)
        steps = [go.set, client.leave]
        for step in steps if number % 2 else reversed(steps):
            step()
            for _ in range(number % 5):
                await asyncio.sleep(0)
    await engine.aborted(100)
    await stage.settled()
    assert stage.states == {"cancelled": 100}
    assert stage.endpoint_stats().inflight == 0


async def test_client_of_a_broken_stream_may_come_again_on_a_new_connection(stage):
    engine = await stage.engine()
    engine.once(EVENTS + chunk(event("a")), Do.CLOSE)
    client = await stage.send(post(ASK))
    assert await client.end() is End.CLOSED
    assert (await stage.ask()).status == 200
