"""What gateways on other hosts tell counts as what the workers here see, and silence counts too."""

from __future__ import annotations

import pytest

from llmgw.control.gateways.sightings import (
    REMEMBERED_S,
    SILENT_AFTER_S,
    WISHES_KEPT_S,
    Sightings,
)
from llmgw.control.gateways.watches import HEARD_S, Gateway, Watches
from llmgw.domain.gateway_reports import EndpointReport, Evidence, GatewayReport
from llmgw.domain.routes import Endpoint, ModelState, RoutedModel, RouteTable
from llmgw.domain.traffic import EndpointTraffic, Traffic
from llmgw.errors import AlreadyHeld, Superseded, Unknown
from tests.fakes.clock import FakeClock

TABLE = RouteTable(
    number=7,
    term=3,
    endpoints=tuple(Endpoint(e, f"http://{e}:1", models=("m",)) for e in "ab"),
    models={"m": RoutedModel("m", state=ModelState.LOADING)},
)
LOCAL = Traffic(
    {"a": EndpointTraffic(0, last_used_at=100.0), "b": EndpointTraffic(0)},
    has_latest_table=True,
)


class Site:
    """Sightings, their clock, and what was told of news."""

    def __init__(self):
        self.clock = FakeClock()
        self.sightings = Sightings(lambda: TABLE, clock=self.clock)
        self.news = 0
        self.sightings.subscribe(self._told)

    def _told(self):
        self.news += 1

    def comes(self, name="gw01", instance="one"):
        self.sightings.opened(Gateway(name, instance, "10.0.0.5:4711", "0.1.0"))

    def reports(self, *endpoints, name="gw01", instance="one", number=7, **facts):
        usual = {"term": 3, "workers": 2}
        report = GatewayReport(
            name, instance, number=number, endpoints=endpoints, **{**usual, **facts}
        )
        return self.sightings.hear(report)

    def traffic(self):
        return self.sightings.joined(LOCAL)


@pytest.fixture
def site():
    return Site()


def test_without_any_other_gateway_the_workers_here_are_all(site):
    assert site.traffic() is LOCAL


def test_what_a_gateway_uses_is_used(site):
    site.comes()
    site.reports(EndpointReport("a", inflight=2), EndpointReport("b", used_ago_s=5.0))
    seen = site.traffic()
    assert seen.endpoints["a"].inflight == 2
    assert seen.endpoints["b"].last_used_at == site.clock.monotonic() - 5.0
    assert seen.has_latest_table


def test_one_that_was_ejected_there_hangs_here(site):
    site.comes()
    site.reports(EndpointReport("a", inflight=1, ejected_ago_s=9.0, is_stalled=True))
    seen = site.traffic().endpoints["a"]
    assert (seen.ejected_at, seen.is_stalled) == (site.clock.monotonic() - 9.0, True)


def test_fresh_gateway_nothing_is_idle_until_it_could_have_told(site):
    site.comes()
    assert site.traffic().endpoints == {}
    assert not site.traffic().has_latest_table
    site.clock.advance(1.0)
    site.reports(EndpointReport("a"), EndpointReport("b"))
    seen = site.traffic().endpoints
    assert seen["a"].last_used_at == 100.0
    assert seen["b"].last_used_at is None


def test_a_silent_gateway_may_be_using_anything(site):
    site.comes()
    site.reports(EndpointReport("a", inflight=1), EndpointReport("b"))
    site.clock.advance(SILENT_AFTER_S + 0.1)
    assert site.traffic().endpoints == {}
    assert not site.traffic().has_latest_table
    site.reports(EndpointReport("a", used_ago_s=3.0), EndpointReport("b"))
    assert site.traffic().endpoints["a"].last_used_at == site.clock.monotonic() - 3.0


def test_one_whose_link_broke_is_waited_for_and_forgotten_in_the_end(site):
    site.comes()
    site.reports(EndpointReport("a", used_ago_s=1.0))
    used_at = site.clock.monotonic() - 1.0
    site.sightings.closed("gw01")
    site.clock.advance(REMEMBERED_S - 1)
    assert site.traffic().endpoints == {}
    assert [one.is_connected for one in site.sightings.views()] == [False]
    site.clock.advance(2)
    assert site.sightings.views() == ()
    assert site.traffic().endpoints["a"].last_used_at == max(used_at, 100.0)


def test_one_that_says_goodbye_leaves_what_it_used_and_nothing_to_wait_for(site):
    site.comes()
    site.reports(EndpointReport("a"), EndpointReport("b"))
    site.clock.advance(2.0)
    site.reports(EndpointReport("b", used_ago_s=1.0), is_leaving=True, number=None)
    assert site.sightings.views() == ()
    seen = site.traffic()
    assert seen.endpoints["b"].last_used_at == site.clock.monotonic() - 1.0
    assert seen.has_latest_table
    with pytest.raises(Unknown):
        site.reports()


def test_a_gateway_that_was_started_anew_without_a_word_may_have_used_anything_until_now(site):
    site.comes()
    site.reports(EndpointReport("b", inflight=1))
    site.clock.advance(30.0)
    site.comes(instance="two")
    site.reports(EndpointReport("b"), instance="two")
    seen = site.traffic().endpoints
    assert (seen["b"].inflight, seen["b"].last_used_at) == (0, site.clock.monotonic())
    assert seen["a"].last_used_at == site.clock.monotonic()


def test_wishes_of_a_gateway_stand_a_while_after_it_fell_silent(site):
    site.comes()
    site.reports(asked=frozenset({"m"}))
    assert site.traffic().asked == {"m"}
    site.clock.advance(WISHES_KEPT_S)
    assert site.traffic().asked == {"m"}
    site.clock.advance(1.0)
    assert site.traffic().asked == frozenset()


def test_who_wishes_hears_how_the_model_stands(site):
    site.comes()
    answer = site.reports(asked=frozenset({"m", "unknown"}))
    assert answer.demand == (TABLE.models["m"],)


@pytest.mark.parametrize(("number", "term"), [(6, 3), (7, 2), (None, 3)])
def test_a_table_is_with_all_once_every_gateway_works_with_it(site, number, term):
    site.comes()
    site.reports(number=number, term=term)
    assert not site.traffic().has_latest_table
    assert not site.sightings.views()[0].is_current
    site.reports()
    assert site.traffic().has_latest_table
    assert site.sightings.views()[0].is_current


def test_what_agents_saw_is_told_once_to_every_gateway(site):
    site.comes()
    site.comes("gw02")
    now = site.clock.monotonic()
    site.sightings.worked("a", worked_at=now - 2, looked_at=now - 1)
    site.sightings.worked("b", worked_at=None, looked_at=now)
    site.sightings.worked("gone", worked_at=None, looked_at=now)
    told = (Evidence("a", looked_ago_s=1.0, worked_ago_s=2.0), Evidence("b", looked_ago_s=0.0))
    assert site.reports().evidence == told
    assert site.reports().evidence == ()
    assert site.reports(name="gw02").evidence == told
    site.clock.advance(1.0)
    site.sightings.worked("b", worked_at=None, looked_at=site.clock.monotonic())
    assert [one.endpoint_id for one in site.reports().evidence] == ["b"]


def test_the_reconciler_hears_of_comings_wishes_and_tables_and_not_of_each_report(site):
    site.comes()
    site.reports(number=6)
    before = site.news
    site.reports(number=6)
    assert site.news == before
    for facts in ({"asked": frozenset({"m"}), "number": 6}, {"number": 7}):
        site.reports(**facts)
        before += 1
        assert site.news == before
    site.sightings.closed("gw01")
    assert site.news == before + 1


def test_a_control_plane_that_leads_no_more_knows_of_no_gateway(site):
    site.comes()
    site.reports(EndpointReport("b", used_ago_s=0.0))
    site.sightings.let_go()
    assert site.sightings.views() == ()
    assert site.traffic() is LOCAL


def test_a_name_is_free_once_its_gateway_was_not_heard_for_a_while():
    clock = FakeClock()
    watches = Watches(clock=clock)
    first = watches.open(Gateway("gw01", "one", "10.0.0.5:1"))
    with pytest.raises(AlreadyHeld, match=r"another gateway watches as gw01 from 10\.0\.0\.5:1"):
        watches.open(Gateway("gw01", "two", "10.0.0.6:1"))
    clock.advance(HEARD_S - 1)
    assert watches.heard("gw01", instance="one") is first
    clock.advance(HEARD_S - 1)
    with pytest.raises(AlreadyHeld):
        watches.open(Gateway("gw01", "two", "10.0.0.6:1"))
    clock.advance(2)
    second = watches.open(Gateway("gw01", "two", "10.0.0.6:1"))
    assert not first.is_open
    assert not watches.close(first)
    with pytest.raises(Unknown):
        watches.heard("gw01", instance="one")
    assert watches.close(second)


async def test_a_newer_call_of_the_same_gateway_ends_the_older_one():
    watches = Watches(clock=FakeClock())
    older = watches.open(Gateway("gw01", "one", "10.0.0.5:1"))
    watches.open(Gateway("gw01", "one", "10.0.0.5:2"))
    with pytest.raises(Superseded):
        await older.due()
