"""The live catalog follows the store, and what is refused has changed nothing."""

from __future__ import annotations

import asyncio
import functools

import pytest

from llmgw.control.catalog import editing
from llmgw.control.catalog.keeping import CatalogKeeper
from llmgw.domain.catalog import Model
from llmgw.domain.catalog_views import ChangeKind, Origin, ScalingWish
from llmgw.errors import CatalogInvalid, Conflict, NoStore, Unknown, Unreachable
from tests.fakes.log_ear import heard
from tests.fakes.stored_models import StoredModelsInMemory, row, written

BIG = Model("big", "/w", aliases=("large",))
AWAY = Unreachable("the store does not answer")


@pytest.fixture
def stored():
    return StoredModelsInMemory(row("small"))


@pytest.fixture
async def keeper(stored, clock):
    made = CatalogKeeper((BIG,), stored=stored, clock=clock)
    await made.load()
    return made


def adding(definition, *, may_replace=False):
    return functools.partial(editing.added, definition=definition, may_replace=may_replace)


def names(keeper):
    return set(keeper.live.current().models)


async def test_what_is_stored_is_in_the_catalog_once_it_is_loaded(stored, clock):
    keeper = CatalogKeeper((BIG,), stored=stored, clock=clock)
    assert names(keeper) == {"big"}
    await keeper.load()
    assert names(keeper) == {"big", "small"}


async def test_a_change_is_written_and_then_seen_at_once(keeper, stored):
    told = []
    keeper.live.subscribe(lambda: told.append("new" in stored.rows))
    done = await keeper.edit(adding(written("new")), actor="bob")
    assert [(c.name, c.kind) for c in done.changes] == [("new", ChangeKind.ADD)]
    assert names(keeper) == {"big", "small", "new"}
    assert told == [True]
    entry = keeper.entry("new")
    assert (entry.origin, entry.actor, entry.revision) == (Origin.STORED, "bob", 1)


async def test_a_reader_keeps_the_catalog_that_it_took(keeper):
    held = keeper.live.current()
    await keeper.edit(adding(written("new")), actor="bob")
    assert set(held.models) == {"big", "small"}


async def test_a_trial_tells_what_would_come_of_it_and_writes_nothing(keeper, stored):
    done = await keeper.edit(adding(written("new")), actor="bob", is_trial=True)
    assert [c.name for c in done.changes] == ["new"]
    assert keeper.entry("new", within=done.composition).name == "new"
    assert (stored.writes, names(keeper)) == (0, {"big", "small"})


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (adding(written("new", x=1)), CatalogInvalid),
        (adding(written("big")), Conflict),
        (functools.partial(editing.rescaled, name="small", wish=ScalingWish(3, 2)), CatalogInvalid),
        (functools.partial(editing.removed, name="nosuch"), Unknown),
    ],
    ids=["invalid", "declared", "scaling", "unknown"],
)
async def test_what_is_refused_leaves_store_and_catalog_as_they_were(keeper, stored, make, kind):
    rows, catalog = dict(stored.rows), keeper.live.current()
    with pytest.raises(kind):
        await keeper.edit(make, actor="bob")
    assert (stored.rows, stored.writes) == (rows, 0)
    assert keeper.live.current() is catalog


async def test_a_store_that_is_away_changes_nothing(keeper, stored):
    catalog, stored.error = keeper.live.current(), AWAY
    with pytest.raises(Unreachable):
        await keeper.edit(adding(written("new")), actor="bob")
    await keeper.refresh()
    assert keeper.live.current() is catalog


async def test_without_a_store_a_change_says_so_and_nothing_changes(clock):
    keeper = CatalogKeeper((BIG,), stored=None, clock=clock)
    await keeper.load()
    await asyncio.wait_for(keeper.run(), 5)
    with pytest.raises(NoStore, match=r"no store.*set auth\.store"):
        await keeper.edit(adding(written("new")), actor="bob")
    assert names(keeper) == {"big"}


async def test_what_another_control_plane_wrote_is_seen_at_the_next_look(keeper, stored):
    await stored.apply(editing.added(keeper._composition, written("other"), may_replace=False),
                       actor="eve", at=3.0)  # fmt: skip
    await keeper.refresh()
    assert "other" in names(keeper)


async def test_a_look_that_finds_nothing_new_swaps_nothing(keeper):
    told = []
    keeper.live.subscribe(lambda: told.append(1))
    await keeper.refresh()
    assert told == []


async def test_a_change_is_made_from_what_is_stored_now(keeper, stored):
    stored.rows["other"] = row("other", aliases=["mine"])
    with pytest.raises(CatalogInvalid):
        await keeper.edit(adding(written("new", aliases=["mine"])), actor="bob")


async def test_who_is_overtaken_while_it_writes_is_told(keeper, stored):
    stored.before_write = lambda: stored.rows.update(small=row("small", description="eve"))
    describe = functools.partial(editing.described, name="small", description="bob")
    with pytest.raises(Conflict, match="changed meanwhile"):
        await keeper.edit(describe, actor="bob")
    assert stored.rows["small"].definition["description"] == "eve"


async def test_changes_at_once_are_made_one_after_the_other(keeper):
    await asyncio.gather(
        *(keeper.edit(adding(written(f"m{n}")), actor="bob") for n in range(5)),
    )
    assert names(keeper) == {"big", "small", *(f"m{n}" for n in range(5))}


async def test_a_skipped_row_is_named_in_the_log_once_and_shown(keeper, stored):
    stored.rows["bad"] = row("bad", "garbage")
    with heard("llmgw.control.catalog") as events:
        await keeper.refresh()
        stored.rows["more"] = row("more")
        await keeper.refresh()
    skipped = {"model": "bad", "reason": "its definition cannot be read"}
    assert [keys for event, keys in events if event == "stored_model_skipped"] == [skipped]
    assert keeper.shown().skipped == {"bad": "its definition cannot be read"}
    with pytest.raises(Unknown, match="was left out of the catalog: its definition cannot be read"):
        keeper.entry("bad")


async def test_entries_are_shown_as_they_were_written(keeper):
    shown = {entry.name: entry for entry in keeper.shown().entries}
    assert shown["small"].definition == row("small").definition
    assert shown["big"].definition == {"name": "big", "source": "/w", "aliases": ["large"]}
    assert (shown["big"].origin, shown["big"].actor) == (Origin.DECLARED, None)
    assert shown["small"].fingerprints.keys() == {"cpu"}
