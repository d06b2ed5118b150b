"""What several gateways know together, and what nobody can know while one is silent."""

from __future__ import annotations

import pytest

from llmgw.domain import joint_traffic
from llmgw.domain.traffic import EndpointTraffic, Traffic


def told(asked=(), *, latest=True, **endpoints):
    return Traffic(endpoints, frozenset(asked), has_latest_table=latest)


def joined(*parts, is_whole=True, known_since=None):
    return joint_traffic.joined(parts, is_whole=is_whole, known_since=known_since)


def test_requests_under_way_are_summed_and_the_last_use_is_anybodys():
    one = told(a=EndpointTraffic(2, last_used_at=5.0), b=EndpointTraffic(0))
    other = told(a=EndpointTraffic(1, last_used_at=7.0))
    assert joined(one, other).endpoints == {
        "a": EndpointTraffic(3, last_used_at=7.0),
        "b": EndpointTraffic(0),
    }


def test_what_anybody_waits_for_is_asked_for():
    assert joined(told(["m"]), told(["n"])).asked == {"m", "n"}


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_last_table_is_with_all_only_when_all_have_it_and_none_is_silent(is_whole):
    assert joined(told(), told(), is_whole=is_whole).has_latest_table is is_whole
    assert not joined(told(), told(latest=False), is_whole=is_whole).has_latest_table


def test_while_a_gateway_is_silent_only_what_is_in_use_is_told_of():
    seen = told(["m"], busy=EndpointTraffic(1), idle=EndpointTraffic(0, last_used_at=1.0))
    silent = joined(seen, is_whole=False)
    assert silent.endpoints == {"busy": EndpointTraffic(1)}
    assert silent.asked == {"m"}


def test_what_was_used_before_a_gateway_was_known_counts_as_used_then():
    seen = told(a=EndpointTraffic(0, last_used_at=10.0), b=EndpointTraffic(0, last_used_at=90.0))
    later = joined(seen, told(c=EndpointTraffic(0)), known_since=50.0).endpoints
    assert later["a"].last_used_at == 50.0
    assert later["b"].last_used_at == 90.0
    assert later["c"].last_used_at is None


def test_one_gateway_at_work_there_keeps_an_endpoint_from_counting_as_hung():
    hung = told(a=EndpointTraffic(1, ejected_at=5.0, is_stalled=True))
    at_work = told(a=EndpointTraffic(1))
    seen = joined(hung, at_work).endpoints["a"]
    assert (seen.ejected_at, seen.is_stalled) == (None, False)


def test_an_endpoint_hangs_since_the_last_gateway_found_it_so():
    first = told(a=EndpointTraffic(1, ejected_at=5.0, is_stalled=True))
    last = told(a=EndpointTraffic(1, ejected_at=8.0))
    unused = told(a=EndpointTraffic(0))
    seen = joined(first, last, unused).endpoints["a"]
    assert (seen.ejected_at, seen.is_stalled) == (8.0, True)
