"""A decision can be explained: each owner has its cost, or the reason why it has none."""

from __future__ import annotations

import pytest

from llmgw.domain.routes import Endpoint, EndpointState
from llmgw.gateway import candidates, picking
from llmgw.gateway.candidates import Reason
from llmgw.gateway.scores import Wish
from tests.fakes.choices import Engine

NOW = 100.0


def owner(name, *, state=EndpointState.READY, **figures):
    one = Engine(name, is_ready=state is EndpointState.READY, **figures)
    one.facts = Endpoint(name, f"http://{name}", ("m",), state=state)
    return one


def explained(owners, *, tried=(), tokens=0):
    wish = Wish(b"req-1")
    wish.prompt_tokens = tokens
    picked = picking.pick(owners, tried=tried, now=NOW, wish=wish)
    told = candidates.explain(owners, tried=tried, now=NOW, wish=wish, picked=picked)
    return picked, {one.endpoint_id: one for one in told}


def test_costs_of_all_that_were_compared_are_told_and_the_cheapest_is_the_chosen():
    picked, told = explained([owner("a", inflight=3), owner("b"), owner("c", inflight=5)])
    assert picked.choice.name == min(told, key=lambda name: told[name].cost) == "b"
    assert {name: one.load for name, one in told.items()} == {"a": 3, "b": 0, "c": 5}
    assert all(one.reason is None for one in told.values())


@pytest.mark.parametrize("reason", list(Reason))
def test_every_owner_that_was_not_compared_has_its_reason(reason):
    match reason:
        case Reason.DRAINING:
            dropped = owner("x", state=EndpointState.DRAINING)
        case Reason.NOT_READY:
            dropped = owner("x")
            dropped.is_ready = False
        case Reason.BREAKER_OPEN:
            dropped = owner("x").fail(NOW)
        case Reason.CONTEXT:
            dropped = owner("x", context_length=100)
        case Reason.PRIORITY:
            dropped = owner("x", priority=-1)
        case Reason.TRIED | Reason.NOT_DRAWN:
            dropped = owner("x")
    others = [owner("a"), owner("b")]
    if reason is Reason.NOT_DRAWN:
        others = [owner(f"e{n}") for n in range(40)]
    tried = (dropped,) if reason is Reason.TRIED else ()
    _, told = explained([*others, dropped], tried=tried, tokens=500)
    if reason is Reason.NOT_DRAWN:
        assert sum(one.reason is reason for one in told.values()) == 41 - 16
    else:
        assert (told["x"].reason, told["x"].cost) == (reason, None)
        assert told["a"].cost is not None


def test_reasons_are_told_where_nobody_could_be_asked():
    picked, told = explained([owner("a").fail(NOW), owner("b", state=EndpointState.DRAINING)])
    assert picked is None
    assert [one.reason for one in told.values()] == [Reason.BREAKER_OPEN, Reason.DRAINING]
