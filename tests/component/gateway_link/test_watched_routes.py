"""What a gateway hears of routes, over real gRPC: from whom, in which order, and after a break."""

from __future__ import annotations

from dataclasses import replace

import pytest
from grpc import aio

from llmgw.domain import route_changes
from llmgw.domain.routes import ModelState
from llmgw.errors import Standby
from llmgw.rpc import channels, wire_routes
from llmgw.rpc.v1 import gateway_pb2 as pb
from llmgw.rpc.v1 import gateway_pb2_grpc
from tests.fakes.gateway_ends import GatewayEnd, linked, table
from tests.fakes.rpc_stage import ControlPlane, running
from tests.fakes.waiting import eventually


async def test_a_gateway_follows_each_table(site):
    plane = ControlPlane(tls=site.server())
    plane.routes.put(table(1, "a"))
    async with running(plane):
        end = GatewayEnd(f"https://{plane.address}", tls=site.node("gateway-gw01"))
        async with linked(end):
            await end.has(table(1, "a"))
            for later in (table(2, "a", "b"), table(3, "b"), table(9, "b", models=("m", "n"))):
                plane.routes.put(later)
                await end.has(later)
            assert end.link.status.is_open


async def test_a_snapshot_comes_first_then_differences_and_a_snapshot_again_with_a_new_term():
    async with running(ControlPlane(term=3)) as plane:
        plane.routes.put(table(1, "a", "b", term=3))
        async with watched(plane) as call:
            assert [await kind(call), await kind(call)] == ["welcome", "snapshot"]
            plane.routes.put(table(2, "a", "b", "c", term=3))
            update = await call.read()
            assert [one.endpoint.endpoint_id for one in update.difference.endpoints] == ["c"]
            assert (update.difference.base, update.number, update.term) == (1, 2, 3)
            plane.leadership.number = 4
            plane.routes.put(table(3, "a", "b", "c", term=4))
            update = await call.read()
            assert (update.WhichOneof("kind"), update.number, update.term) == ("snapshot", 3, 4)


async def test_tables_that_followed_each_other_while_one_was_sent_come_as_one_difference():
    async with running(ControlPlane()) as plane:
        plane.routes.put(table(1, "a"))
        async with watched(plane) as call:
            assert [await kind(call), await kind(call)] == ["welcome", "snapshot"]
            for number, name in enumerate("bcd", start=2):
                plane.routes.put(table(number, "a", name))
            update = await call.read()
            assert (update.difference.base, update.number) == (1, 4)


class SkippingOnce(gateway_pb2_grpc.GatewayServiceServicer):
    """Forgets a table on its first call, as a lost update would."""

    def __init__(self):
        self.calls = 0

    async def WatchRoutes(self, request, context):  # noqa: N802
        self.calls += 1
        await context.write(wire_routes.pack_welcome(term=0))
        await context.write(wire_routes.pack_snapshot(table(self.calls, "a"), term=0))
        change = route_changes.between(table(7, "a"), table(8, "a", "b"))
        if self.calls == 1:
            await context.write(wire_routes.pack_change(change, term=0))
        await eventually(lambda: False)

    async def Report(self, request, context):  # noqa: N802
        return pb.ReportAnswer()


async def test_a_gap_makes_a_new_call_with_a_whole_table(link_log):
    server, service = channels.make_server(), SkippingOnce()
    gateway_pb2_grpc.add_GatewayServiceServicer_to_server(service, server)
    port = channels.bind(server, address="127.0.0.1:0", tls=None)
    await server.start()
    end = GatewayEnd(f"http://127.0.0.1:{port}")
    async with linked(end):
        await end.has(table(2, "a"))
    await server.stop(None)
    reasons = [keys["reason"] for event, keys in link_log if event == "control_plane_lost"]
    assert "a change of table 7 came to table 1: one is missing" in reasons[0]
    assert [one.number for one in end.tables] == [1, 2]


async def test_the_leader_is_found_among_several_and_the_standby_says_what_it_is(link_log):
    async with running(ControlPlane(leads=False)) as standby, running(ControlPlane()) as leader:
        leader.routes.put(table(5, "a"))
        end = GatewayEnd(f"http://{standby.address}", f"http://{leader.address}")
        async with linked(end):
            await end.has(table(5, "a"))
            assert end.link.status.address == f"http://{leader.address}"
    refused = [keys["reason"] for event, keys in link_log if event == "control_plane_not_reached"]
    assert "this control plane is a standby" in refused[0]


async def test_who_is_deposed_sends_its_gateways_to_the_one_that_leads():
    async with running(ControlPlane(term=1)) as first, running(ControlPlane(leads=False)) as second:
        first.routes.put(table(1, "a", term=1))
        end = GatewayEnd(f"http://{first.address}", f"http://{second.address}")
        async with linked(end):
            await end.has(table(1, "a", term=1))
            second.routes.put(table(1, "b", term=2))
            second.leadership.leads, second.leadership.number = True, 2
            first.leadership.leads = False
            first.apart.stand_by(Standby("another one leads"))
            await end.has(table(1, "b", term=2))
            assert first.apart.views() == ()


async def test_gateways_of_a_leader_whose_lease_ran_out_look_for_another():
    """It ends no call by itself, for it may lead again; but it answers no report."""
    async with running(ControlPlane(term=1)) as lapsed, running(ControlPlane(leads=False)) as other:
        lapsed.routes.put(table(1, "a", term=1))
        end = GatewayEnd(f"http://{lapsed.address}", f"http://{other.address}")
        async with linked(end):
            await end.has(table(1, "a", term=1))
            lapsed.leadership.leads = False
            await eventually(lambda: not end.link.status.is_open)
            assert end.routes.current() == table(1, "a", term=1)
            other.routes.put(table(1, "b", term=2))
            other.leadership.leads, other.leadership.number = True, 2
            await end.has(table(1, "b", term=2))


async def test_routes_of_an_older_term_are_not_followed():
    async with running(ControlPlane(term=4)) as older:
        older.routes.put(table(8, "old", term=4))
        newest = table(3, "new", term=5)
        async with linked(GatewayEnd(f"http://{older.address}", table=newest)) as end:
            await eventually(lambda: "has seen term 5" in end.refusal)
            assert 5 in older.leadership.terms_heard
            assert end.routes.current() == newest


async def test_without_any_control_plane_the_last_table_stands_and_is_made_good_on_return():
    async with running(ControlPlane()) as plane:
        plane.routes.put(table(4, "a"))
        end, port = GatewayEnd(f"http://{plane.address}"), plane.port
        async with linked(end):
            await end.has(table(4, "a"))
            await plane.listener.close()
            await eventually(lambda: not end.link.status.is_open)
            assert end.routes.current() == table(4, "a")
            returned = ControlPlane(port=port)
            returned.routes.put(table(6, "a", "b"))
            async with running(returned):
                await end.has(table(6, "a", "b"))


@pytest.mark.parametrize("has_table", [True, False])
async def test_who_has_a_table_is_told_of_another_once_the_fleet_is_known(has_table):
    plane, last = ControlPlane(), table(7, "a", "b")
    plane.knows_fleet = False
    plane.routes.put(table(1, "a"))
    async with running(plane):
        end = GatewayEnd(f"http://{plane.address}", table=last if has_table else None)
        async with linked(end):
            if not has_table:
                await end.has(table(1, "a"))
                return
            await eventually(lambda: plane.apart.views() and plane.apart.views()[0].is_connected)
            assert end.routes.current() == last
            plane.routes.put(table(2, "a", "b"))
            plane.knows_fleet = True
            await end.has(table(2, "a", "b"))
            assert [one.number for one in end.tables] == [2]


async def test_how_a_wish_stands_is_heard_while_tables_are_held_back():
    plane, last = ControlPlane(), table(7, "a", state=ModelState.ON_DEMAND)
    plane.knows_fleet = False
    plane.routes.put(table(1, "a", state=ModelState.LOADING))
    async with running(plane), linked(GatewayEnd(f"http://{plane.address}", table=last)) as end:
        end.workers.ask("m")
        loading = replace(last, models=table(1, "a", state=ModelState.LOADING).models)
        await end.has(loading)
        assert end.tables == [loading], "how the wish stands, and nothing else of the new table"


async def kind(call):
    return (await call.read()).WhichOneof("kind")


class watched:  # noqa: N801 - a context manager
    """A call as a gateway makes it, read by hand."""

    def __init__(self, plane):
        self.plane = plane

    async def __aenter__(self):
        self.channel: aio.Channel = channels.open_channel(self.plane.address, tls=None)
        stub = gateway_pb2_grpc.GatewayServiceStub(self.channel)
        return stub.WatchRoutes(pb.WatchRequest(name="gw01", instance="x"))

    async def __aexit__(self, *_):
        await self.channel.close(None)
