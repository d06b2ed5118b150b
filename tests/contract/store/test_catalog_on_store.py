"""The catalog on a real store: what is changed is written, and nothing else of the row."""

from __future__ import annotations

import asyncio
import functools
import json

import pytest
from sqlalchemy import text

from llmgw.control.catalog import editing
from llmgw.control.catalog.keeping import CatalogKeeper
from llmgw.domain.catalog_views import ScalingWish
from llmgw.errors import CatalogInvalid, Conflict
from llmgw.kit.clock import SystemClock
from tests.fakes.stored_models import written

WRITTEN = {
    **written("chat", source="hf:a/b.gguf"),
    "description": "ä\u00a0\U0001f600",
    "scaling": {"max": 3, "min": 1, "idle_timeout": "45m"},
    "context_length": 8192,
}


def adding(definition):
    return functools.partial(editing.added, definition=definition, may_replace=False)


def scaling(*numbers):
    return functools.partial(editing.rescaled, name="chat", wish=ScalingWish(*numbers))


async def kept(store):
    """The row of the model as it lies in the store."""

    async def work(connection):
        found = await connection.execute(text("SELECT definition FROM models"))
        return found.scalar()

    value = await store.database.read(work)
    return value if isinstance(value, str) else json.dumps(value)


@pytest.fixture
async def keeper(store):
    made = CatalogKeeper((), stored=store.models, clock=SystemClock())
    await made.edit(adding(WRITTEN), actor="ann")
    return made


async def test_what_was_added_is_in_the_catalog_of_the_next_process(keeper, address, opened):
    again = CatalogKeeper((), stored=(await opened(address)).models, clock=SystemClock())
    await again.load()
    assert again.live.current() == keeper.live.current()
    assert again.entry("chat").definition == WRITTEN


async def test_scaling_leaves_every_other_byte_as_it_was_written(keeper, store):
    await keeper.edit(scaling(2), actor="bob")
    expected = {**WRITTEN, "scaling": {"min": 2, "idle_timeout": "45m"}}
    assert json.loads(await kept(store)) == expected
    assert list(json.loads(await kept(store))) == list(WRITTEN)
    assert (keeper.entry("chat").scaling.max, keeper.entry("chat").actor) == (2, "ann")


async def test_a_rejected_scaling_leaves_the_stored_row_as_it_was(keeper, store):
    before = await kept(store)
    with pytest.raises(CatalogInvalid):
        await keeper.edit(scaling(3, 2), actor="bob")
    assert await kept(store) == before


async def test_a_row_that_somebody_has_damaged_hides_no_other(keeper, store):
    await keeper.edit(adding(written("other")), actor="ann")

    async def damage(connection):
        await connection.execute(text("UPDATE models SET definition = '5' WHERE name = 'chat'"))

    await store.database.write(damage)
    await keeper.refresh()
    catalog = keeper.live.current()
    assert (catalog.stored, set(catalog.skipped)) == ({"other"}, {"chat"})


async def test_of_two_control_planes_that_write_at_once_the_later_one_is_told(
    keeper, address, opened
):
    other = CatalogKeeper((), stored=(await opened(address)).models, clock=SystemClock())
    await other.load()
    edits = [
        keeper.edit(functools.partial(editing.described, name="chat", description=word), actor="a")
        for word in ("one", "two")
    ]
    edits.append(
        other.edit(functools.partial(editing.described, name="chat", description="x"), actor="b")
    )
    done = await asyncio.gather(*edits, return_exceptions=True)
    assert all(not isinstance(one, Exception) or isinstance(one, Conflict) for one in done)
    await asyncio.gather(keeper.load(), other.load())
    assert keeper.live.current() == other.live.current()


async def test_a_whole_catalog_is_written_together_or_not_at_all(keeper, store):
    wanted = [written("new"), written("more", fallbacks=["new"])]
    apply = functools.partial(editing.applied, wanted=wanted, may_remove=True)
    await keeper.edit(apply, actor="ann")
    assert {row.name for row in await store.models.all()} == {"new", "more"}
    broken = [*wanted, written("bad", fallbacks=["nosuch"])]
    with pytest.raises(CatalogInvalid):
        await keeper.edit(
            functools.partial(editing.applied, wanted=broken, may_remove=True), actor="ann"
        )
    assert {row.name for row in await store.models.all()} == {"new", "more"}
