"""The schema goes up and down with data in it, on each database, and says what does not fit."""

from __future__ import annotations

import asyncio

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from llmgw.config import store_address
from llmgw.domain.jobs import Job
from llmgw.domain.stored import ModelEdit, StoredModel
from llmgw.errors import Conflict
from llmgw.store import migrating, tables
from llmgw.store.opening import Store
from tests.fakes.tenants import key, let_in, plant

MODEL = StoredModel(
    name="chat",
    definition={"source": "/m"},
    actor="ann",
    created_at=1_764_500_000.123,
    updated_at=1_764_500_000.123,
    revision=1,
)
JOB = Job(
    job_id="j1",
    kind="verify_node",
    playbook="verify.yml",
    targets=("n1",),
    requested_by="ann",
    created_at=5.0,
)


async def add_model(store):
    edit = ModelEdit(MODEL.name, before=None, definition=MODEL.definition)
    await store.models.apply([edit], actor=MODEL.actor, at=MODEL.created_at)


async def moved(store, to):
    async def work(connection):
        await connection.run_sync(migrating.move, to=to)

    await store.database.write(work)


async def ask(store, question):
    async def work(connection):
        return await connection.run_sync(question)

    return await store.database.read(work)


async def run(store, statement, **given):
    async def work(connection):
        await connection.execute(text(statement), given)

    await store.database.write(work)


def names(connection):
    return set(inspect(connection).get_table_names()) - {"alembic_version"}


async def test_an_empty_store_gets_all_tables_as_they_are_declared(store):
    def differences(connection):
        return compare_metadata(MigrationContext.configure(connection), tables.metadata)

    assert await ask(store, names) == set(tables.metadata.tables)
    assert await ask(store, differences) == []


async def test_what_was_written_before_a_step_is_there_after_it_up_and_down(store):
    await add_model(store)
    await store.jobs.queue(JOB)
    await moved(store, "0001")
    assert await store.models.all() == [MODEL]
    assert "jobs" not in await ask(store, names)
    await moved(store, "0002")
    assert await store.models.all() == [MODEL]
    assert await store.jobs.page() == []
    await store.jobs.queue(JOB)
    assert await store.jobs.find("j1") == JOB


async def test_people_and_keys_outlast_the_steps_after_theirs_and_go_with_their_own(store):
    await plant(store)
    ann = await let_in(store)
    await store.keys.add(key(user_id=ann.user_id))
    await moved(store, "0004")
    assert await store.people.all() == [ann]
    assert await store.keys.all() == [key(user_id=ann.user_id)]
    await moved(store, "0003")
    assert not {"users", "api_keys", "orgs"} & await ask(store, names)
    await moved(store, "0004")
    assert await store.people.all() == []
    await plant(store)


async def test_all_the_way_down_leaves_nothing_and_up_again_works(store):
    await add_model(store)
    await moved(store, migrating.EMPTY)
    assert await ask(store, names) == set()
    await moved(store, "0002")
    assert await store.models.all() == []


async def test_an_older_store_is_brought_up_by_the_server_with_what_it_holds(
    store, address, opened
):
    await add_model(store)
    await moved(store, "0001")
    after = await opened(address)
    assert await after.models.all() == [MODEL]
    assert "jobs" in await ask(after, names)


async def test_a_command_changes_no_schema_and_says_who_does(store, address, opened):
    await moved(store, "0001")
    with pytest.raises(Conflict, match=r"is at schema 0001.*start `llmgw server`"):
        await opened(address, may_migrate=False)
    assert "jobs" not in await ask(store, names)


async def test_a_command_on_an_empty_store_says_that_it_is_empty(address, opened):
    with pytest.raises(Conflict, match="has no tables yet"):
        await opened(address, may_migrate=False)


async def test_a_newer_store_that_needs_a_newer_llmgw_is_refused(store, address, opened):
    await run(store, "UPDATE alembic_version SET version_num = '0099'")
    await run(store, "UPDATE schema_facts SET revision = '0099', usable_from = '0098'")
    with pytest.raises(Conflict, match=r"at schema 0099.*install the newer version"):
        await opened(address)


async def test_a_newer_store_that_this_one_can_work_on_is_used(store, address, opened):
    """So the second server of a pair may be upgraded an hour after the first."""
    await add_model(store)
    await run(store, "UPDATE alembic_version SET version_num = '0099'")
    await run(store, "UPDATE schema_facts SET revision = '0099', usable_from = '0002'")
    assert await (await opened(address)).models.all() == [MODEL]


async def test_a_table_of_somebody_else_is_left_alone(address, opened):
    first = Store(store_address.parse(address))
    first.database._engine = first.database._made()
    await run(first, "CREATE TABLE models (id INTEGER)")
    await first.close()
    with pytest.raises(Conflict, match="already has a table 'models'"):
        await opened(address)


async def test_servers_that_start_together_make_the_tables_once(address, opened):
    stores = await asyncio.gather(*(opened(address) for _ in range(4)))
    await add_model(stores[0])
    for one in stores:
        assert await one.models.all() == [MODEL]


async def test_a_step_that_fails_leaves_the_store_as_it_was(store, address, opened):
    await add_model(store)
    await moved(store, "0001")
    await run(store, "CREATE TABLE node_claims (id INTEGER)")
    with pytest.raises(Conflict):
        await opened(address)
    assert await store.models.all() == [MODEL]
    assert await ask(store, names) >= {"models", "node_claims"}
    assert "jobs" not in await ask(store, names)
