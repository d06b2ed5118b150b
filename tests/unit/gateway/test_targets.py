"""A request's path is understood in one way, or not at all."""

from __future__ import annotations

import pytest

from llmgw.gateway.exchange import BodyBudget, Exchange, path_of
from llmgw.kit import ids


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/", b"/"),
        (b"/v1/models", b"/v1/models"),
        (b"/v1/models?limit=1&x=//..", b"/v1/models"),
        (b"/v1/models/llama-3.1", b"/v1/models/llama-3.1"),
        (b"/v1/models/peer/name", b"/v1/models/peer/name"),
        (b"/v1/models/.hidden", b"/v1/models/.hidden"),
        (b"/a%20b", b"/a b"),
        (b"/a%2520", b"/a%20"),
        (b"http://elsewhere/v1/models?x", b"/v1/models"),
        (b"HTTPS://elsewhere", b"/"),
    ],
)
def test_path_is_decoded_once_and_has_no_query(target, path):
    assert path_of(target) == path


@pytest.mark.parametrize(
    "target",
    [
        b"",
        b"*",
        b"v1",
        b"//",
        b"/v1//models",
        b"/..",
        b"/v1/../x",
        b"/./x",
        b"/%2e%2e/x",
        b"/a%2fb",
        b"/a%2Fb",
        b"ftp://h/x",
        b"h:443",
    ],
    ids=repr,
)
def test_path_that_must_not_be_guessed_at_is_none(target):
    assert path_of(target) is None


@pytest.mark.parametrize("chosen", ["a", "A.b_c-9", "x" * 128])
def test_legal_id_of_the_client_is_kept(chosen):
    exchange = Exchange(BodyBudget(0), 0.0)
    exchange.headers = {b"x-request-id": chosen.encode()}
    exchange.identify(ids.RequestIds())
    assert exchange.request_id == chosen


@pytest.mark.parametrize("chosen", ["", "x" * 129, "a b", "a/b", "ä", "a, b", 'a"b'])
def test_other_id_of_the_client_is_replaced(chosen):
    exchange = Exchange(BodyBudget(0), 0.0)
    exchange.headers = {b"x-request-id": chosen.encode()}
    exchange.identify(ids.RequestIds())
    assert exchange.request_id.startswith("req-")


def test_every_made_id_is_another():
    first, second = ids.RequestIds(), ids.RequestIds()
    made = [make() for _ in range(100) for make in (first, second)]
    assert len(set(made)) == 200
    assert {len(one) for one in made} == {len(ids.request_id())}


def test_body_beyond_the_workers_budget_is_not_taken_and_all_comes_back():
    budget = BodyBudget(10)
    first, second = Exchange(budget, 0.0), Exchange(budget, 0.0)
    assert first.add_body(b"abc")
    assert first.add_body(b"def")
    assert not second.add_body(b"12345")
    assert second.add_body(b"1234")
    first.join_body()
    assert first.body == b"abcdef"
    for exchange in (first, second, first):
        exchange.forget_content()
    assert budget.held_bytes == 0
