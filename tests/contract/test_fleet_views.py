"""What everything that fits ``FleetViews`` promises to the admin API."""

from __future__ import annotations

import asyncio

import pytest

from llmgw.control.catalog.live import LiveCatalog
from llmgw.control.reconciler.loop import Reconciler
from llmgw.control.reconciler.options import Options
from llmgw.control.reconciler.ports import Rooms
from llmgw.domain import catalog_rules, summaries
from llmgw.domain.catalog import Model, Profile, Scaling
from llmgw.domain.nodes import NodeFacts
from llmgw.errors import Unknown
from tests.fakes.clock import FakeClock
from tests.fakes.fleet import FakeFleet

_WITHIN_S = 10.0
_NODES = ("cpu01", "cpu02")
_ONE = Scaling(min=1, max=1)
_CATALOG = (
    Model(
        name="small",
        source="sim",
        aliases=("little",),
        scaling=_ONE,
        profiles=(Profile(name="cpu", engine="sim"),),
    ),
    Model(
        name="huge",
        source="org/huge",
        scaling=_ONE,
        profiles=(Profile(name="gpu", engine="vllm", gpu_class="h100-80g", tp=8),),
    ),
    Model(name="off", source="sim", profiles=(Profile(name="cpu", engine="sim"),)),
)


class TakesEveryOrder:
    """Fits ``Dispatcher``: every node is connected and does nothing."""

    def start(self, node_id, spec):
        pass

    def stop(self, node_id, shard_id):
        pass

    def drain(self, node_id, shard_id):
        pass


class Leads:
    """Fits ``Leadership``."""

    def is_leader(self):
        return True

    def is_lapsed(self):
        return False

    def term(self):
        return 1


async def of_fake():
    return FakeFleet()


async def of_reconciler():
    """A reconciler after the passes that placed what fits on two nodes without cards."""
    rooms = Rooms(
        catalog=LiveCatalog(catalog_rules.build(_CATALOG)),
        dispatcher=TakesEveryOrder(),
        leadership=Leads(),
        clock=FakeClock(),
    )
    made = Reconciler(rooms, options=Options(expected_nodes=frozenset(_NODES)))
    for node_id in reversed(_NODES):
        made.register(
            NodeFacts(node_id=node_id, mgmt_addr="127.0.0.1", engine_versions={"sim": "0.1.0"}), ()
        )
    passes = asyncio.create_task(made.run())
    try:
        async with asyncio.timeout(_WITHIN_S):
            while not (made.replicas() and made.status().unplaced):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        passes.cancel()
        await asyncio.gather(passes, return_exceptions=True)
    return made


@pytest.fixture(params=[of_fake, of_reconciler], ids=["fake", "reconciler"])
async def fleet(request):
    return await request.param()


async def test_lists_are_in_the_order_of_their_names(fleet):
    for names in (
        [n.node_id for n in fleet.nodes()],
        [m.name for m in fleet.models()],
        [r.replica_id for r in fleet.replicas()],
    ):
        assert names == sorted(names)
        assert names


async def test_status_is_the_sum_of_the_lists(fleet):
    page = fleet.status()
    assert page == summaries.summarise(
        control=page.control,
        nodes=fleet.nodes(),
        models=fleet.models(),
        replicas=fleet.replicas(),
    )


async def test_unknown_model_is_unknown(fleet):
    with pytest.raises(Unknown):
        fleet.explain("no-such-model")


async def test_model_that_fits_nowhere_has_a_reason_for_every_node(fleet):
    placement = fleet.explain("huge")
    assert placement.is_unplaced
    [profile] = placement.profiles
    assert [v.node_id for v in profile.nodes] == [n.node_id for n in fleet.nodes()]
    assert all(v.reason and v.check for v in profile.nodes)


async def test_verdict_has_a_reason_exactly_when_it_is_no(fleet):
    for model in fleet.models():
        for profile in fleet.explain(model.name).profiles:
            assert all(bool(v.reason) is not v.is_fit for v in profile.nodes)


async def test_missing_replica_has_its_reason_on_the_status_page(fleet):
    [unplaced] = fleet.status().unplaced
    assert unplaced.model == "huge"
    assert unplaced.reason


async def test_alias_is_explained_as_the_model_that_it_stands_for(fleet):
    aliases = [(alias, m.name) for m in fleet.models() for alias in m.aliases]
    assert aliases
    for alias, name in aliases:
        assert fleet.explain(alias).model == name


async def test_replica_is_named_by_the_nodes_that_hold_it(fleet):
    held = {(r, n.node_id) for n in fleet.nodes() for r in n.replica_ids}
    shards = {(r.replica_id, s.node_id) for r in fleet.replicas() for s in r.shards}
    assert held == shards
