"""What a gateway sees reaches the control plane over real gRPC, and what agents see the gateway."""

from __future__ import annotations

from llmgw.domain.traffic import EndpointTraffic
from tests.fakes.gateway_ends import GatewayEnd, linked, table
from tests.fakes.gateways import FakeGateways
from tests.fakes.rpc_stage import ControlPlane, running
from tests.fakes.waiting import eventually


async def test_use_wishes_and_hangs_are_heard_and_the_table_is_known_to_have_come():
    async with running(ControlPlane(term=2)) as plane:
        plane.routes.put(table(1, "a", "b", term=2))
        here = plane.apart.beside(FakeGateways())
        end = GatewayEnd(f"http://{plane.address}")
        now = plane_now(plane)
        end.workers.endpoints = {
            "a": EndpointTraffic(3),
            "b": EndpointTraffic(1, last_used_at=now - 60, ejected_at=now - 40, is_stalled=True),
        }
        async with linked(end):
            await eventually(lambda: plane.apart.views() and plane.apart.views()[0].is_current)
            assert here.traffic().has_latest_table
            seen = here.traffic().endpoints
            assert seen["a"].inflight == 3
            assert 50 < plane_now(plane) - seen["b"].last_used_at < 90
            assert 30 < plane_now(plane) - seen["b"].ejected_at < 70
            assert seen["b"].is_stalled
            end.workers.ask("m")
            await eventually(lambda: here.traffic().asked == {"m"})
            (view,) = plane.apart.views()
            assert (view.name, view.term, view.number, view.workers) == ("gw01", 2, 1, 1)
            assert view.is_current


async def test_what_agents_see_of_engines_reaches_the_workers_of_the_gateway():
    async with running(ControlPlane()) as plane:
        plane.routes.put(table(1, "a"))
        here = plane.apart.beside(FakeGateways())
        async with linked(GatewayEnd(f"http://{plane.address}")) as end:
            await end.has(table(1, "a"))
            now = plane_now(plane)
            here.worked("a", worked_at=now - 30, looked_at=now)
            await eventually(lambda: end.workers.told)
            ((name, worked_at, looked_at),) = end.workers.told
            assert name == "a"
            assert 29 < looked_at - worked_at < 31


async def test_the_control_plane_hears_at_once_when_a_request_waits():
    async with running(ControlPlane()) as plane:
        plane.routes.put(table(1, "a"))
        here, news = plane.apart.beside(FakeGateways()), []
        async with linked(GatewayEnd(f"http://{plane.address}", report_s=2.0)) as end:
            await eventually(lambda: plane.apart.views() and plane.apart.views()[0].is_current)
            here.subscribe(lambda: news.append(here.traffic().asked))
            end.workers.ask("m")
            await eventually(lambda: {"m"} in news, within_s=10.0)
            assert end.link.status.is_open


async def test_a_gateway_that_ends_says_goodbye():
    async with running(ControlPlane()) as plane:
        plane.routes.put(table(1, "a"))
        async with linked(GatewayEnd(f"http://{plane.address}")) as end:
            await eventually(lambda: plane.apart.views() and plane.apart.views()[0].is_connected)
            assert end.link.status.is_open
        assert plane.apart.views() == ()


def plane_now(plane):
    return plane.clock.monotonic()
