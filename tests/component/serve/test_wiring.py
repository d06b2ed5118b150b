"""What is joined for production offers every method of every port, with its parameters.

A forwarder that lacks one fails only when an operator needs it.
"""

from __future__ import annotations

import inspect
import typing

import pytest

from llmgw.api.ports import Control
from llmgw.control.agents.connections import Speaker
from llmgw.control.agents.fleet_ports import FleetEvents
from llmgw.control.reconciler import ports
from tests.fakes import clusters
from tests.fakes.simulated import control_plane

PORTS = typing.get_type_hints(Control)
IN_THE_API = sorted(PORTS)


def methods(port):
    """The methods that a port asks for."""
    return [
        method
        for kind in port.__mro__
        if getattr(kind, "_is_protocol", False) and kind is not typing.Protocol
        for method in vars(kind).values()
        if inspect.isfunction(method) and not method.__name__.startswith("_")
    ]


def assert_fits(thing, port):
    """Every method is there, and takes what the port says."""
    wanted = methods(port)
    assert wanted, port
    for method in wanted:
        found = getattr(thing, method.__name__)
        assert inspect.iscoroutinefunction(found) is inspect.iscoroutinefunction(method)
        offered = inspect.signature(found).parameters
        asked = list(inspect.signature(method).parameters)[1:]
        assert list(offered)[: len(asked)] == asked, f"{port.__name__}.{method.__name__}"
        extra = [offered[name] for name in list(offered)[len(asked) :]]
        assert all(one.default is not inspect.Parameter.empty for one in extra)


@pytest.mark.parametrize("name", IN_THE_API)
async def test_the_admin_api_is_offered_all_that_it_asks_for(name, tmp_path, planted):
    port, *absent = typing.get_args(PORTS[name]) or (PORTS[name],)
    async with control_plane(tmp_path, store=planted if absent else None) as control:
        assert_fits(getattr(control.shown, name), port)


async def test_the_reconciler_reaches_nodes_and_hears_them(tmp_path):
    async with control_plane(tmp_path) as control:
        assert_fits(control.shown.logs, ports.Dispatcher)
        assert control.reconciler._rooms.dispatcher is control.shown.logs
        assert_fits(control.reconciler, FleetEvents)


async def test_a_ban_by_the_admin_api_ends_the_stream_of_its_node(tmp_path):
    async with control_plane(tmp_path) as control:
        control.reconciler.register(clusters.facts("n1"), ())
        connection = control._agents.connections.open(Speaker(node_id="n1", peer="here"))
        view = await control.shown.flags.ban_node("n1", is_banned=True)
        assert (view.state, connection.is_open) == ("banned", False)
        assert (await connection.ended()).code == "banned"
