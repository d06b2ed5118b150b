"""Stored models, on each database."""

from __future__ import annotations

import asyncio

import pytest

from llmgw.domain.stored import AuditEntry, StoredModel
from llmgw.errors import Conflict, Unknown

DEFINITION = {
    "source": "hf:a/b.gguf",
    "name": "chat",
    "scaling": {"min": 1, "idle_timeout": "30m"},
    "profiles": [{"name": "cpu", "engine": "llamacpp", "args": ["--x", "ä\u2028"], "weight": 0.1}],
}


def model(name="chat", **changed):
    given = {
        "definition": DEFINITION,
        "actor": "ann",
        "created_at": 1.5,
        "updated_at": 1.5,
        "revision": 1,
    }
    return StoredModel(name=name, **{**given, **changed})


def entry(action, outcome="done"):
    return AuditEntry(
        at=2.0, actor="ann", origin="cli", action=action, target="chat", outcome=outcome
    )


async def test_a_model_is_read_as_it_was_written(store):
    await store.models.add(model())
    assert await store.models.all() == [model()]
    assert list((await store.models.find("chat")).definition) == list(DEFINITION)


async def test_models_come_in_the_order_of_their_names(store):
    for name in ("b", "C", "a"):
        await store.models.add(model(name))
    assert {m.name for m in await store.models.all()} == {"a", "b", "C"}


async def test_a_name_that_is_there_is_a_conflict_and_changes_nothing(store):
    await store.models.add(model())
    with pytest.raises(Conflict, match="chat is stored already"):
        await store.models.add(model(actor="bob"), entry=entry("model.add"))
    assert (await store.models.find("chat")).actor == "ann"
    assert await store.audit.page() == []


async def test_a_change_rises_the_revision_and_keeps_who_made_it(store):
    await store.models.add(model())
    changed = await store.models.change("chat", {"name": "chat"}, revision=1, at=9.0)
    assert changed == model(definition={"name": "chat"}, updated_at=9.0, revision=2)
    assert await store.models.find("chat") == changed


async def test_a_change_of_what_has_changed_since_is_a_conflict(store):
    await store.models.add(model())
    await store.models.change("chat", {"n": 1}, revision=1, at=2.0)
    with pytest.raises(Conflict, match="changed meanwhile"):
        await store.models.change("chat", {"n": 2}, revision=1, at=3.0)
    assert (await store.models.find("chat")).definition == {"n": 1}


async def test_of_many_changes_at_once_one_wins(store):
    await store.models.add(model())
    done = await asyncio.gather(
        *(store.models.change("chat", {"n": n}, revision=1, at=2.0) for n in range(8)),
        return_exceptions=True,
    )
    assert sum(isinstance(one, StoredModel) for one in done) == 1
    assert sum(isinstance(one, Conflict) for one in done) == 7


async def test_a_removed_model_is_gone_and_an_unknown_one_is_told(store):
    await store.models.add(model())
    await store.models.remove("chat")
    assert await store.models.find("chat") is None
    with pytest.raises(Unknown, match="no model chat"):
        await store.models.remove("chat")
    with pytest.raises(Unknown, match="no model chat"):
        await store.models.change("chat", {}, revision=1, at=1.0)


async def test_a_change_and_its_entry_are_kept_together_or_not_at_all(store):
    await store.models.add(model(), entry=entry("model.add"))
    with pytest.raises(Unknown):
        await store.models.remove("other", entry=entry("model.remove"))
    assert [kept.action for kept in await store.audit.page()] == ["model.add"]


async def test_what_was_added_is_there_for_the_next_process(address, opened):
    before = await opened(address)
    await before.models.add(model())
    await before.close()
    assert await (await opened(address)).models.all() == [model()]
