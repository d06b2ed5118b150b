"""Receipts are found by their id, the newest for ever and the oldest as long as there is room."""

from __future__ import annotations

import orjson
import pytest

from llmgw.gateway.exchange import BodyBudget, Cut, Exchange, State
from llmgw.gateway.receipts import LEAST_BYTES, Receipts
from llmgw.gateway.trail import MOST_CANDIDATES, MOST_STEPS, Considered, Step
from llmgw.gateway.usage import Usage


@pytest.fixture
def receipts(clock):
    return Receipts(capacity_bytes=LEAST_BYTES, now=clock.monotonic, wall=clock.wall)


def ended(request_id, **changes):
    exchange = Exchange(BodyBudget(10**9), 100.0)
    changes = {
        "path": b"/v1/chat/completions",
        "request_id": request_id,
        "model_name": "m",
        "attempts": 2,
        "endpoint_id": "e2",
        "first_sent_at": 100.01,
        "sent_at": 100.1,
        "first_byte_at": 100.2,
        "ended_at": 101.0,
        "status": 200,
        "state": State.COMPLETED,
    } | changes
    for name, value in changes.items():
        setattr(exchange, name, value)
    return exchange


def found(receipts, request_id):
    return orjson.loads(receipts.find(request_id))


def test_receipt_tells_where_a_request_went_and_what_it_cost(receipts):
    exchange = ended("a", usage=Usage(9, 4, 8), is_stream=True)
    exchange.note(Step(100.05, "attempt_failed", "e1", "dial_failed"))
    receipts.keep(exchange)
    told = found(receipts, "a")
    assert told.pop("created") > 0
    assert told == {
        "id": "a",
        "object": "request",
        "path": "/v1/chat/completions",
        "status": 200,
        "state": "completed",
        "model": "m",
        "stream": True,
        "attempts": 2,
        "endpoint": "e2",
        "queue_ms": 10.0,
        "ttft_ms": 100.0,
        "total_ms": 1000.0,
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 8},
        "steps": [
            {"at_ms": 50.0, "step": "attempt_failed", "endpoint": "e1", "outcome": "dial_failed"}
        ],
    }


def test_what_never_was_has_no_key(receipts):
    receipts.keep(
        ended("a", first_sent_at=0.0, first_byte_at=0.0, attempts=0, endpoint_id="", status=503)
    )
    assert {"queue_ms", "ttft_ms", "usage", "endpoint", "truncated", "steps"}.isdisjoint(
        found(receipts, "a")
    )


def test_name_that_no_text_can_have_ends_no_request(receipts):
    receipts.keep(ended("a", model_name="\ud800"))
    assert found(receipts, "a")["model"] == "\\ud800"


def test_break_and_estimate_are_told(receipts):
    receipts.keep(ended("a", cut=Cut.LOST, usage=Usage(1, 2, is_estimated=True)))
    assert found(receipts, "a")["truncated"] == "lost"
    assert found(receipts, "a")["usage"]["estimated"] is True


def test_unknown_id_is_not_found(receipts):
    assert receipts.find("a") is None
    receipts.keep(ended("a"))
    assert receipts.find("b") is None
    assert receipts.find("") is None


def test_newest_of_two_with_one_id_is_found(receipts):
    receipts.keep(ended("a", status=500))
    receipts.keep(ended("a", status=200))
    assert found(receipts, "a")["status"] == 200


def test_each_receipt_is_found_whole_or_not_at_all(receipts):
    """Over many rounds of the block, with lines of many lengths."""
    sent = []
    for n in range(3000):
        request_id = f"{n}-" + "x" * (n * 7919 % 120)
        receipts.keep(ended(request_id))
        sent.append(request_id)
        if n % 50 == 0:
            kept = [one for one in sent if receipts.find(one) is not None]
            assert kept == sent[-len(kept) :], "the oldest go first"
            assert all(found(receipts, one)["id"] == one for one in kept)
    assert 400 < len(kept) < 1200


def test_memory_does_not_grow_with_requests(receipts):
    for n in range(5000):
        receipts.keep(ended(f"r{n}"))
    assert len(receipts._block) == LEAST_BYTES
    assert len(receipts._recent) + len(receipts._older) < 2 * LEAST_BYTES / 80


@pytest.mark.parametrize("name_length", [5, 200], ids=["short names", "long names"])
def test_longest_receipt_of_all_is_kept_at_least_without_its_steps(receipts, clock, name_length):
    one = Considered("e" * name_length, load=1.23456, cost=1.23456, reason="breaker_open")
    exchange = ended("a")
    for _ in range(MOST_STEPS + 9):
        exchange.note(Step(clock.monotonic(), "decided", "e1", candidates=(one,) * MOST_CANDIDATES))
    receipts.keep(exchange)
    told = found(receipts, "a")
    assert len(told.get("steps", ())) == (MOST_STEPS if name_length == 5 else 0)


def test_only_so_many_decisions_a_second_are_explained(receipts, clock):
    now = clock.monotonic()
    at_once = sum(receipts.may_explain(now) for _ in range(1000))
    assert 30 <= at_once <= 50
    assert not receipts.may_explain(now)
    assert receipts.may_explain(now + 1.0)
    within_ten_s = sum(receipts.may_explain(now + n / 100) for n in range(100, 1100))
    assert within_ten_s <= 450
