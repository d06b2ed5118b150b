"""What a changed catalog does to what runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.control.catalog.keeping import CatalogKeeper
from llmgw.control.leadership.elector import Elector, Timing
from llmgw.domain import catalog_rules
from llmgw.domain.replicas import ShardState
from llmgw.domain.snapshots import Bounds
from llmgw.domain.stored import Lease
from llmgw.domain.views import GpuUse, ModelStatus
from llmgw.errors import Unknown
from tests.fakes import clusters
from tests.fakes.reconciled import Stage
from tests.fakes.stored_models import StoredModelsInMemory, row

MODEL = clusters.model("m", clusters.gpu_profile())


async def serving(stage):
    def is_up():
        stage.obey()
        return len(stage.urls()) == 1

    await stage.until(is_up)


def used(stage):
    return [c.use for node in stage.reconciler.nodes() for c in node.gpus].count(GpuUse.USED)


async def test_a_removed_models_replica_is_torn_down_and_its_cards_return():
    stage = Stage(MODEL)
    async with stage.running():
        stage.register("n1", gpus=2)
        await serving(stage)
        assert used(stage) == 1
        stage.catalog.swap(catalog_rules.build([]))

        def is_gone():
            stage.clock.advance(1)
            stage.reconciler.wake()
            stage.obey()
            return not stage.reconciler.replicas()

        await stage.until(is_gone)
        assert (used(stage), stage.urls()) == (0, [])


async def test_an_edited_profile_leaves_its_replica_alone_and_flags_it():
    stage = Stage(MODEL)
    async with stage.running():
        stage.register("n1", gpus=2)
        await serving(stage)
        before = stage.replica()
        edited = replace(MODEL, profiles=(replace(MODEL.profiles[0], args=("--x",)),))
        stage.catalog.swap(catalog_rules.build([edited]))
        await stage.some_passes()
        after = stage.replica()
        assert (after.replica_id, after.state) == (before.replica_id, before.state)
        assert (before.is_stale_profile, after.is_stale_profile) == (False, True)
        assert stage.dispatcher.taken() == []


async def test_a_model_that_failed_is_started_at_once_when_somebody_says_so():
    stage = Stage(clusters.model("m"), bounds=Bounds(base_backoff_s=600.0))
    async with stage.running():
        stage.register("n1")
        await serving(stage)
        stage.report(stage.replica(), ShardState.FAILED)
        await stage.until(lambda: stage.reconciler.models()[0].status is ModelStatus.BACKOFF)
        stage.reconciler.instructions.retry("m")
        await serving(stage)
        with pytest.raises(Unknown):
            stage.reconciler.instructions.retry("nosuch")


class OneLease:
    """Whoever asks gets it."""

    async def take(self, *, owner, address, ttl_s, above_term):
        return Lease(owner=owner, term=above_term + 1, address=address, left_s=ttl_s)

    async def release(self, *, owner):
        pass


async def test_a_new_leader_has_what_its_predecessor_stored_before_it_leads(clock):
    stored = StoredModelsInMemory()
    keeper = CatalogKeeper((), stored=stored, clock=clock)
    await keeper.load()
    elector = Elector(OneLease(), address="a:1", timing=Timing(), clock=clock)
    elector.prepare(keeper.load)
    known = []
    elector.subscribe(lambda _: known.append(set(keeper.live.current().models)))
    stored.rows["late"] = row("late")
    await elector._campaign()
    assert (elector.is_leader(), known) == (True, [{"late"}])
