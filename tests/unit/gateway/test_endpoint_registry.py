"""A new table replaces the old one whole, and what survives it keeps what is known of it."""

from __future__ import annotations

import dataclasses

import pytest

from llmgw.domain.routes import Endpoint, EndpointState, RouteTable
from llmgw.errors import Invalid
from llmgw.gateway.breaker import BreakerRules, Outcome, Permit
from llmgw.gateway.endpoints import Registry
from llmgw.gateway.pool import Address


@pytest.fixture
def registry(clock):
    return Registry(rules=BreakerRules(), dial_timeout_s=1.0, now=clock.monotonic)


def endpoint(endpoint_id="e1", *, url="http://127.0.0.1:1", models=("m",), **facts):
    return Endpoint(endpoint_id=endpoint_id, url=url, models=models, **facts)


def put(registry, *endpoints):
    registry.replace(RouteTable(endpoints=endpoints))
    return {live.facts.endpoint_id: live for live in registry.all()}


def test_owners_are_those_that_list_a_model_in_the_order_of_their_ids(registry):
    put(registry, endpoint("b"), endpoint("a", models=("m", "n")), endpoint("c", models=()))
    assert [live.facts.endpoint_id for live in registry.owners["m"]] == ["a", "b"]
    assert [live.facts.endpoint_id for live in registry.owners["n"]] == ["a"]
    assert "o" not in registry.owners


def test_survivor_keeps_its_load_and_its_breaker(registry):
    live = put(registry, endpoint())["e1"]
    for _ in range(3):
        live.seat.take()
    for _ in range(3):
        live.learn(Outcome.FAILED, Permit.ORDINARY)
    after = put(registry, endpoint(weight=2.0), endpoint("e2"))["e1"]
    assert after is live
    assert (after.inflight, after.breaker.is_closed, after.weight) == (3, False, 2.0)


def test_same_id_at_another_address_is_another_process(registry):
    live = put(registry, endpoint())["e1"]
    for _ in range(3):
        live.seat.take()
    after = put(registry, endpoint(url="http://127.0.0.1:2"))["e1"]
    assert after.inflight == 0
    assert not live.serves("m")


def test_endpoint_that_is_no_longer_listed_serves_nothing(registry):
    live = put(registry, endpoint())["e1"]
    assert live.serves("m")
    put(registry)
    assert not live.serves("m")
    assert not live.is_ready
    assert dict(registry.owners) == {}


def test_draining_endpoint_stays_listed_and_is_not_ready(registry):
    live = put(registry, endpoint(state=EndpointState.DRAINING))["e1"]
    assert live.serves("m")
    assert not live.is_ready


def test_weight_of_nothing_means_one(registry):
    assert put(registry, endpoint(weight=0.0))["e1"].weight == 1.0


def test_changed_key_is_used_from_then_on(registry):
    live = put(registry, endpoint(api_key="old"))["e1"]
    assert b"Bearer old" in live.request_line(b"/v1/completions")
    put(registry, dataclasses.replace(endpoint(), api_key="new"))
    assert b"Bearer new" in live.request_line(b"/v1/completions")


def test_address_that_cannot_be_dialled_leaves_the_others_in_place(registry):
    lives = put(registry, endpoint("bad", url="ftp://x"), endpoint("good"))
    assert list(lives) == ["good"]


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "authority"),
    [
        ("http://10.0.0.1:8000", "10.0.0.1", 8000, b"", b"10.0.0.1:8000"),
        ("https://api.example", "api.example", 443, b"", b"api.example:443"),
        ("http://h/openai/", "h", 80, b"/openai", b"h:80"),
        ("http://[::1]:9", "::1", 9, b"", b"[::1]:9"),
    ],
)
def test_address_is_read_from_the_url(url, host, port, path, authority):
    address = Address.of(url)
    assert (address.host, address.port, address.path) == (host, port, path)
    assert address.authority == authority
    assert address.is_tls == url.startswith("https")


@pytest.mark.parametrize("url", ["", "10.0.0.1:80", "http://", "http://h:x", "http://h:99999"])
def test_url_without_a_host_or_with_a_bad_port_is_refused(url):
    with pytest.raises(Invalid):
        Address.of(url)
