"""Stored models, on each database."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from llmgw.domain.stored import ModelEdit, StoredModel
from llmgw.errors import Conflict, Standby

DEFINITION = {
    "source": "hf:a/b.gguf",
    "name": "chat",
    "scaling": {"min": 1, "idle_timeout": "30m"},
    "profiles": [{"name": "cpu", "engine": "llamacpp", "args": ["--x", "ä\u2028"], "weight": 0.1}],
}


ADDED = StoredModel("chat", DEFINITION, actor="ann", created_at=1.5, updated_at=1.5, revision=1)


def added(name="chat"):
    return ModelEdit(name, before=None, definition=DEFINITION)


async def keep(store, *edits, actor="ann", at=1.5):
    await store.models.apply(edits, actor=actor, at=at)


async def names(store):
    return {model.name for model in await store.models.all()}


async def test_a_model_is_read_as_it_was_written(store):
    await keep(store, added())
    (found,) = await store.models.all()
    assert found == ADDED
    assert list(found.definition) == list(DEFINITION)


async def test_models_come_in_the_order_of_their_names(store):
    await keep(store, added("b"), added("C"), added("a"))
    assert await names(store) == {"a", "b", "C"}


async def test_a_name_that_is_there_is_a_conflict_and_changes_nothing(store):
    await keep(store, added())
    with pytest.raises(Conflict, match="chat was added meanwhile"):
        await keep(store, added("other"), added(), actor="bob")
    assert await store.models.all() == [ADDED]


async def test_a_change_rises_the_revision_and_keeps_who_added_it(store):
    await keep(store, added())
    await keep(store, ModelEdit("chat", before=ADDED, definition={"n": 1}), actor="bob", at=9.0)
    assert await store.models.all() == [
        StoredModel("chat", {"n": 1}, actor="ann", created_at=1.5, updated_at=9.0, revision=2)
    ]


async def test_a_change_of_what_has_changed_since_is_a_conflict(store):
    await keep(store, added())
    await keep(store, ModelEdit("chat", before=ADDED, definition={"n": 1}))
    for late in ({"n": 2}, None):
        with pytest.raises(Conflict, match="changed meanwhile"):
            await keep(store, ModelEdit("chat", before=ADDED, definition=late))
    (found,) = await store.models.all()
    assert found.definition == {"n": 1}


async def test_of_many_changes_at_once_one_wins(store):
    await keep(store, added())
    done = await asyncio.gather(
        *(keep(store, ModelEdit("chat", ADDED, definition={"n": n})) for n in range(8)),
        return_exceptions=True,
    )
    assert sum(one is None for one in done) == 1
    assert sum(isinstance(one, Conflict) for one in done) == 7


async def test_several_changes_are_kept_together_or_not_at_all(store):
    await keep(store, added())
    gone = ModelEdit("chat", before=ADDED, definition=None)
    stale = ModelEdit("gone", before=dataclasses.replace(ADDED, name="gone"), definition={})
    with pytest.raises(Conflict, match="gone was changed meanwhile"):
        await keep(store, gone, added("new"), stale)
    assert await names(store) == {"chat"}
    await keep(store, added("new"), gone)
    assert await names(store) == {"new"}


async def test_what_was_added_is_there_for_the_next_process(address, opened):
    before = await opened(address)
    await keep(before, added())
    await before.close()
    assert await (await opened(address)).models.all() == [ADDED]


async def test_who_does_not_lead_writes_nothing(store):
    await store.leases.take(owner="a", address="a:1", ttl_s=60, above_term=0)
    edit = [added()]
    with pytest.raises(Standby):
        await store.models.apply(edit, actor="ann", at=1.5, owner="b")
    assert await names(store) == set()
    await store.models.apply(edit, actor="ann", at=1.5, owner="a")
    assert await names(store) == {"chat"}
