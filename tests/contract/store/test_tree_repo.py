"""Organisations, teams and projects, on each database."""

from __future__ import annotations

import dataclasses

import pytest

from llmgw.domain.stored import AuditEntry
from llmgw.domain.tenancy import Org, Project, Team, Tree
from llmgw.errors import Conflict, Unknown
from tests.fakes.tenants import ORG, OTHER, PROJECT, TEAM, plant

ENTRY = AuditEntry(at=1.0, actor="ann", origin="cli", action="a.b", target="t", outcome="done")


async def test_the_tree_is_read_as_it_was_written(store):
    await plant(store)
    found = await store.tree.read()
    assert found == Tree((ORG,), (TEAM,), (OTHER, PROJECT))
    assert found.path(found.project("p1")) == "acme/research/chat"
    assert found.above("p1") == (ORG, TEAM, PROJECT)


async def test_founding_twice_changes_nothing_and_renames_where_it_is_asked_to(store):
    assert await store.tree.found(ORG, TEAM, PROJECT, entry=ENTRY)
    assert not await store.tree.found(ORG, TEAM, PROJECT, entry=ENTRY)
    renamed = dataclasses.replace(PROJECT, name="talk", created_at=99.0)
    assert await store.tree.found(ORG, TEAM, renamed, entry=ENTRY)
    found = await store.tree.read()
    assert found.projects == (dataclasses.replace(PROJECT, name="talk"),)
    assert len(await store.audit.page()) == 2


async def test_a_name_that_is_taken_in_the_same_place_is_a_conflict(store):
    await plant(store)
    for place in (Org("o2", "acme", 1.0), Team("t2", "o1", "research", 1.0)):
        with pytest.raises(Conflict, match=place.name):
            await store.tree.add(place)
    await store.tree.add(Org("o2", "globex", 1.0))
    await store.tree.add(Team("t2", "o2", "research", 1.0))
    assert len((await store.tree.read()).teams) == 2


async def test_a_place_hangs_below_one_that_there_is(store):
    with pytest.raises(Unknown, match="organisation 'o1'"):
        await store.tree.add(TEAM)
    with pytest.raises(Unknown, match="team 't1'"):
        await store.tree.add(Project("p1", "t1", "chat", 1.0))
    assert await store.tree.read() == Tree()


async def test_a_place_gets_another_name(store):
    await plant(store)
    await store.tree.rename("team", "t1", "lab", entry=ENTRY)
    assert (await store.tree.read()).team("acme/lab").team_id == "t1"
    with pytest.raises(Unknown):
        await store.tree.rename("org", "t1", "lab")
