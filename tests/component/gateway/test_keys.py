"""Where keys are asked for: who gets in, to which models, and what is charged in the end."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from llmgw.config.entering import AdmissionSettings, BandSettings
from llmgw.domain.pricing import Price
from llmgw.domain.routes import ModelState
from tests.fakes.gateway_stage import ASK, MODEL, ON_ONE_LOOP
from tests.fakes.key_ring import KeyRing
from tests.fakes.looked_at import LookedAt
from tests.fakes.principals import principal
from tests.fakes.raw_client import get, post
from tests.fakes.upstream import DONE, END, EVENTS, Do, chunk, event, whole

pytestmark = ON_ONE_LOOP

KEY = "Authorization: Bearer sk-1"
USED = {"prompt_tokens": 12, "completion_tokens": 8, "total_tokens": 20}
GOOD = whole(orjson.dumps({"choices": [], "usage": USED}))
A_MICRO_A_TOKEN = Price(1000, 1000)
FULL = b"vllm:num_requests_running 1\nvllm:num_requests_waiting 9\nvllm:request_success_total 3\n"


@pytest.fixture
async def ring(stage):
    """Keys of the gateway of one test; ``sk-1`` has no limits; a token costs one micro-unit."""
    ring = KeyRing(default=A_MICRO_A_TOKEN, prices={"small": Price()})
    ring.known_now["sk-1"] = principal()
    stage.doors = ring.doors()
    yield ring
    if stage.gateway is not None:
        await stage.settled()
    assert ring.gate.holds == 0, "what is held for a request ends with it"
    assert sorted(note.request_id for note in ring.notes) == sorted(
        row.request_id for row in ring.rows
    ), "each request that was sent to an engine has one row"


def limited(ring, token="sk-1", **limits):
    ring.known_now[token] = principal(token, **limits)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ((), 401),
        (("Authorization: Bearer wrong",), 401),
        (("Authorization: Basic c2stMQ==",), 401),
        (("Authorization: Bearer",), 401),
        (("Authorization: Bearer " + "x" * 600,), 401),
        (("x-api-key: sk-1", "Authorization: Bearer other"), 401),
        ((KEY,), 200),
        (("authorization: bEARER  sk-1",), 200),
        (("x-api-key: sk-1",), 200),
        (("x-api-key: sk-1", KEY), 200),
    ],
    ids=str,
)
async def test_request_needs_one_known_key(stage, ring, fields, status):
    await stage.engine(answer=GOOD)
    answer = await stage.ask(ASK, *fields)
    assert answer.status == status
    if status == 401:
        assert answer.code == "invalid_api_key"
        assert answer.error["type"] == "authentication_error"
        assert answer["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/", "/health", "/ready"])
async def test_what_says_nothing_needs_no_key(stage, ring, path):
    await stage.engine()
    client = await stage.send(get(path))
    assert (await client.answer()).status == 200


@pytest.mark.parametrize(
    "path",
    ["/v1/models", "/v1/models/m", "/v1/requests/x", "/me", "/v1/anything", "/health/", "/metrics"],
)
async def test_everything_else_needs_one(stage, ring, path):
    await stage.engine()
    for method in ("GET", "POST", "OPTIONS", "DELETE"):
        client = await stage.send(get(path, method=method))
        assert (await client.answer()).status == 401, method


async def test_key_that_is_not_known_here_is_asked_for(stage, ring):
    ring.to_ask["sk-new"] = principal("k-new")
    await stage.engine(answer=GOOD)
    answer = await stage.ask(ASK, "Authorization: Bearer sk-new")
    assert (answer.status, ring.asked) == (200, ["sk-new"])
    assert ring.rows[0].key_id == "k-new"


async def test_while_nobody_can_tell_a_key_is_not_called_wrong(stage, ring):
    ring.is_away = True
    answer = await stage.ask(ASK, "Authorization: Bearer sk-new")
    assert (answer.status, answer.code) == (503, "auth_unavailable")
    assert int(answer["retry-after"]) == 2


async def test_client_that_leaves_while_its_key_is_asked_for_leaves_nothing(stage, ring):
    ring.may_answer.clear()
    client = await stage.send(post(ASK, "Authorization: Bearer sk-new"))
    await stage.until(lambda: ring.asked)
    client.leave()
    await stage.until(lambda: stage.states)
    ring.may_answer.set()
    assert stage.states == {"cancelled": 1}


async def test_keys_reach_no_engine(stage, ring):
    engine = await stage.engine(answer=GOOD)
    await stage.ask(ASK, KEY, "x-api-key: sk-1")
    assert b"sk-1" not in engine.requests[0].raw


@pytest.mark.parametrize("listed", ["m", "alias"])
async def test_name_and_alias_are_the_same_to_a_list_of_models(stage, ring, listed):
    stage.list_model(MODEL, aliases=("alias",))
    stage.list_model("other")
    await stage.engine(models=(MODEL, "other"), answer=GOOD)
    models = frozenset({listed})
    limited(ring, models=models, key_limits={"models": models})
    assert (await stage.ask(ASK, KEY)).status == 200
    assert (await stage.ask({**ASK, "model": "alias"}, KEY)).status == 200
    refused = await stage.ask({**ASK, "model": "other"}, KEY)
    assert (refused.status, refused.code) == (403, "model_not_allowed")
    assert (await stage.ask({**ASK, "model": "typo"}, KEY)).code == "model_not_found"


async def test_key_sees_the_models_that_it_may_use(stage, ring):
    stage.list_model("other")
    await stage.engine(models=(MODEL, "other"))
    limited(ring, models=frozenset({MODEL}), team_limits={"models": frozenset({MODEL})})
    listed = await (await stage.send(get("/v1/models", KEY))).answer()
    assert [model["id"] for model in listed.json["data"]] == [MODEL]
    other = await (await stage.send(get("/v1/models/other", KEY))).answer()
    assert other.code == "model_not_found"


async def test_empty_list_closes_a_place_and_keeps_its_keys(stage, ring):
    await stage.engine()
    limited(ring, models=frozenset(), project_limits={"models": frozenset()})
    assert (await stage.ask(ASK, KEY)).status == 403
    listed = await (await stage.send(get("/v1/models", KEY))).answer()
    assert listed.json["data"] == []


async def test_row_tells_what_the_engine_said(stage, ring):
    await stage.engine(answer=GOOD, node_id="n7")
    await stage.ask(ASK, KEY, "X-Request-Id: r-1")
    [row] = ring.rows
    assert (row.request_id, row.outcome, row.is_estimated) == ("r-1", "finished", False)
    assert (row.prompt_tokens, row.completion_tokens, row.cost_micros) == (12, 8, 20)
    assert (row.endpoint, row.node_id, row.status, row.model) == ("e1", "n7", 200, MODEL)
    assert row.at == ring.notes[0].at


async def test_rates_are_refused_with_the_time_to_come_back(stage, ring):
    await stage.engine(answer=GOOD)
    limited(ring, key_limits={"rpm": 1})
    first = await stage.ask(ASK, KEY)
    assert first["x-ratelimit-remaining-requests"] == "0"
    refused = await stage.ask(ASK, KEY)
    assert (refused.status, refused.code) == (429, "requests_per_minute")
    assert int(refused["retry-after"]) == 1
    assert refused["x-ratelimit-limit-requests"] == "1"
    assert refused["x-ratelimit-remaining-requests"] == "0"
    assert len(ring.rows) == 1


async def test_spent_budget_is_refused_without_a_time(stage, ring):
    await stage.engine(answer=GOOD)
    limited(ring, team_limits={"budget": 20})
    await stage.ask(ASK, KEY)
    refused = await stage.ask(ASK, KEY)
    assert (refused.status, refused.code) == (429, "budget_exhausted")
    assert (refused.error["type"], refused["retry-after"]) == ("insufficient_quota", None)


async def test_spent_budget_is_served_by_a_model_that_costs_nothing_and_says_so(stage, ring):
    stage.list_model(MODEL, fallbacks=("dear", "small"))
    stage.list_model("small")
    stage.list_model("dear")
    await stage.engine(models=(MODEL, "small", "dear"), answer=GOOD)
    limited(ring, key_limits={"budget": 20})
    assert (await stage.ask(ASK, KEY))["x-llmgw-served-model"] == "m"
    answer = await stage.ask(ASK, KEY)
    assert answer.status == 200
    assert answer["x-llmgw-served-model"] == "small"
    assert [row.served_model for row in ring.rows] == [MODEL, "small"]
    assert ring.spent == 20


async def test_fallback_that_the_key_may_not_use_is_none(stage, ring):
    stage.list_model(MODEL, fallbacks=("small",))
    stage.list_model("small")
    await stage.engine(models=(MODEL, "small"), answer=GOOD)
    models = frozenset({MODEL})
    limited(ring, models=models, key_limits={"budget": 0, "models": models})
    assert (await stage.ask(ASK, KEY)).code == "budget_exhausted"


async def test_model_that_takes_over_for_want_of_engines_is_paid_at_its_own_price(stage, ring):
    stage.list_model(MODEL, fallbacks=("small",), state=ModelState.NOT_PLACED)
    stage.list_model("small")
    await stage.engine(models=("small",), answer=GOOD)
    limited(ring, key_limits={"budget": 1000})
    assert (await stage.ask(ASK, KEY)).status == 200
    assert (ring.rows[0].served_model, ring.spent) == ("small", 0)


async def test_prompt_that_no_model_reads_counts_nowhere(stage, ring):
    stage.list_model(MODEL, context_length=10)
    await stage.engine(answer=GOOD)
    limited(ring, key_limits={"rpm": 1})
    long = {"model": MODEL, "messages": [{"role": "user", "content": "x" * 400}]}
    assert (await stage.ask(long, KEY)).code == "context_length_exceeded"
    assert (await stage.ask(ASK, KEY)).status == 200


async def test_request_that_nobody_could_serve_counts_nowhere(stage, ring):
    limited(ring, key_limits={"rpm": 1, "tpm": 1000, "budget": 100, "concurrency": 1})
    for _ in range(3):
        assert (await stage.ask(ASK, KEY)).code == "no_endpoints"
    assert ring.rows == []


async def test_stream_holds_its_place_until_it_ends(stage, ring):
    more = asyncio.Event()
    engine = await stage.engine()
    engine.always(EVENTS, chunk(event("a")), more, chunk(DONE), END)
    limited(ring, key_limits={"concurrency": 1})
    client = await stage.send(post({**ASK, "stream": True}, KEY))
    await engine.asked()
    refused = await stage.ask(ASK, KEY)
    assert (refused.status, refused.code) == (429, "concurrent_requests")
    more.set()
    await client.answer()
    engine.always(GOOD)
    assert (await stage.ask(ASK, KEY)).status == 200


async def test_client_that_leaves_mid_stream_pays_what_came(stage, ring):
    engine = await stage.engine()
    engine.always(EVENTS, *(chunk(event("word")) for _ in range(5)), Do.HOLD)
    limited(ring, key_limits={"budget": 10_000, "concurrency": 1})
    client = await stage.send(post({**ASK, "stream": True}, KEY))
    await client.until(lambda: client.raw.count(b"word") == 5)
    client.leave()
    await stage.until(lambda: ring.rows)
    [row] = ring.rows
    assert (row.outcome, row.is_estimated) == ("aborted", True)
    assert 0 < row.completion_tokens <= 5
    assert row.prompt_tokens == 0, "nothing is known of what its prompt cost"


async def test_prompt_of_who_leaves_costs_no_more_than_one_of_its_length_ever_did(stage, ring):
    engine = await stage.engine(answer=GOOD)
    await stage.ask({**ASK, "stream": True}, KEY)
    engine.always(EVENTS, chunk(event("word")), Do.HOLD)
    client = await stage.send(post({**ASK, "stream": True}, KEY))
    await client.until(lambda: b"word" in client.raw)
    client.leave()
    await stage.until(lambda: len(ring.rows) == 2)
    assert 0 < ring.rows[1].prompt_tokens <= 12


async def test_engine_that_fails_costs_nothing(stage, ring):
    stage.tune(dispatch={"max_attempts": 2})
    await stage.engine(answer=whole(b"{}", status=500))
    answer = await stage.ask(ASK, KEY)
    assert answer.status == 500
    [row] = ring.rows
    assert (row.outcome, row.cost_micros, row.status) == ("failed", 0, 500)


async def test_band_is_that_of_the_key_and_no_header_changes_it(stage, ring):
    stage.doors = ring.doors(admission=AdmissionSettings(queue_max=0))
    limited(ring, band="bronze")
    await stage.engine(answer=GOOD)
    await stage.ask(ASK, KEY, "x-llmgw-band: gold")
    waits = stage.stats.admission.wait_buckets
    assert {name for name, buckets in waits.items() if sum(buckets)} == {"bronze"}


async def test_half_of_two_hundred_clients_leave_and_nothing_is_left_over(stage, ring):
    engine = await stage.engine()
    engine.always(EVENTS, *(chunk(event("w")) for _ in range(3)), 0.002, chunk(DONE), END)
    limits = {"rpm": 100_000, "tpm": 10**9, "budget": 10**12, "concurrency": 10_000}
    limited(ring, org_limits=limits, team_limits=limits, project_limits=limits, key_limits=limits)

    async def one(n):
        client = await stage.send(post({**ASK, "stream": True}, KEY))
        if n % 2:
            await asyncio.sleep((n % 7) / 2000)
            client.leave()
        else:
            assert (await client.answer()).status == 200

    for start in range(0, 200, 40):
        await asyncio.gather(*(one(n) for n in range(start, start + 40)))
    await stage.settled()
    board = ring.gate._board
    for name in ("org:o1", "team:t1", "project:p1", "key:sk-1"):
        counter = board.counter(name)
        assert (counter.running, counter.reserved) == (0, 0)
        assert counter.spent("lifetime", ring.gate._at) == ring.spent


async def test_request_that_admission_refuses_counts_nowhere(stage, ring):
    stage.tune(scrape_interval=0.05)
    bands = (BandSettings(name="gold", ceiling=1.0, max_wait_s=0.1),)
    stage.doors = ring.doors(admission=AdmissionSettings(bands=bands))
    limited(ring, key_limits={"rpm": 1, "tpm": 1000, "budget": 100, "concurrency": 1})
    engine = await LookedAt(FULL).start()
    engine.works.set()
    try:
        stage.list_endpoint("e1", engine.url)
        await stage.client()
        await engine.looked_at(3)
        for _ in range(2):
            assert (await stage.ask(ASK, KEY)).code == "overloaded"
        assert ring.rows == []
    finally:
        stage.drop_endpoint("e1")
        await engine.close()


async def test_receipt_is_shown_to_whoever_asked_and_to_nobody_else(stage, ring):
    await stage.engine(answer=GOOD)
    limited(ring, "sk-2", project="p2")
    await stage.ask(ASK, KEY, "X-Request-Id: r-1")
    own = await (await stage.send(get("/v1/requests/r-1", KEY))).answer()
    assert own.json["id"] == "r-1"
    other = "Authorization: Bearer sk-2"
    foreign = await (await stage.send(get("/v1/requests/r-1", other))).answer()
    absent = await (await stage.send(get("/v1/requests/r-9", other))).answer()
    assert (foreign.status, foreign.code) == (absent.status, absent.code) == (404, "not_found")
    assert foreign.error["message"] == absent.error["message"]
