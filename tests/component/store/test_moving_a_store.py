"""A SQLite store moves into PostgreSQL with everything, however often the move is cut off."""

from __future__ import annotations

import pytest

from llmgw.accounts.keys import KeyMaking, KeyWish
from llmgw.accounts.noting import Telling
from llmgw.accounts.relocating import Move
from llmgw.accounts.sealing import Claiming
from llmgw.config import store_address
from llmgw.domain import people
from llmgw.domain.actors import Actor
from llmgw.domain.jobs import Job
from llmgw.domain.stored import AuditEntry, ModelEdit
from llmgw.errors import AlreadyHeld, Conflict, Invalid
from llmgw.serve import store_moving
from llmgw.store import leases_repo
from llmgw.store.opening import Store
from tests.fakes import usage
from tests.fakes.clock import FakeClock
from tests.fakes.stores import make_room
from tests.fakes.tenants import key, let_in, plant, session

ANN = Actor("ann", origin="cli")
ENTRY = AuditEntry(at=1.0, actor="ann", origin="cli", action="a.b", target="t", outcome="done")
JOB = Job("j1", "verify", playbook="v.yml", targets=("n1",), requested_by="ann", created_at=5.0)
CUTS = (0, 1, 4, 8)
"""After so many pages more a move is cut off: at the first, between tables, near the end."""


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "store.db")


@pytest.fixture
def room(postgres):
    return make_room(postgres)


@pytest.fixture
async def source(file, opened):
    """A store with something in every room of it."""
    store = await opened(file)
    await plant(store)
    await let_in(store)
    await store.sessions.add(session())
    for number in range(6):
        await store.keys.add(key(f"k{number}", user_id="u1" if number % 2 else None))
    await store.limits.change("team", "t1", {"budget": 0, "models": frozenset({"b", "a"})})
    await store.audit.append(ENTRY)
    edit = ModelEdit("chat", before=None, definition={"z": 1, "a": ["ä", 0.1, None]})
    await store.models.apply([edit], actor="ann", at=1.5)
    await store.jobs.queue(JOB)
    days = [usage.NOON - usage.DAY_S * (number % 3) for number in range(30)]
    await store.usage.write(
        [usage.row(at=at, key=f"k{number % 5}") for number, at in enumerate(days)]
    )
    await store.leases.take(owner="cp1", address="a:1", ttl_s=60, above_term=41)
    await store.leases.release(owner="cp1")
    return store


async def sums(store):
    return [await store.transfers.held(name, size=7) for name in store.transfers.tables]


class CutOff(Exception):
    """The process is gone."""


class Failing:
    """The tables of a store, until so many pages were written."""

    def __init__(self, tables, pages):
        self._tables = tables
        self._left = pages

    def __getattr__(self, name):
        return getattr(self._tables, name)

    async def put(self, name, rows):
        if self._left == 0:
            raise CutOff
        self._left -= 1
        await self._tables.put(name, rows)


async def reopened(room):
    store = Store(store_address.parse(room))
    await store.open(may_migrate=False, may_create=True, may_fill=True)
    return store


async def test_a_moved_store_has_every_row_and_every_key_works(source, file, room, opened):
    clock = FakeClock()
    making = KeyMaking(source.keys, clock=clock, telling=Telling(None, clock=clock))
    linked = await making.create(KeyWish("n", project_id="p1", claim_s=60), actor=ANN)
    spent = await source.usage_sums.spent(since=0.0)
    told = []
    await store_moving.move(file, room, environ={}, on_table=told.append)
    moved = await opened(room, may_migrate=False)
    assert await sums(moved) == await sums(source)
    assert {one.table: one.rows for one in told}["usage"] == 30
    assert await moved.usage_sums.spent(since=0.0) == spent
    opened_key = await Claiming(moved.claims, clock=clock).open(linked.claim.token)
    found = await moved.keys.chain(people.digest(opened_key.secret), now=1.0)
    assert found.key == linked.key
    assert [one.definition for one in await moved.models.all()] == [
        one.definition for one in await source.models.all()
    ]
    await moved.audit.append(ENTRY)
    assert len({one.entry_id for one in await moved.audit.page()}) == 2
    lease = await moved.leases.take(owner="cp2", address="b:1", ttl_s=60)
    assert (lease.owner, lease.term) == ("cp2", 43)
    with pytest.raises(Conflict, match="is not empty"):
        await store_moving.move(file, room, environ={})


async def test_a_move_that_was_cut_off_again_and_again_is_finished_by_the_next_one(
    source, room, opened
):
    target = await reopened(room)
    try:
        for cut in CUTS:
            moving = Move(source.transfers, Failing(target.transfers, cut), name="f", page=8)
            with pytest.raises(CutOff):
                await moving.run()
        with pytest.raises(Conflict, match="run 'llmgw keys move-store' to its end"):
            await opened(room)
        with pytest.raises(Conflict, match="is being filled from f"):
            await Move(source.transfers, target.transfers, name="another").run()
        await source.keys.revoke("k1", at=50.0)
        await source.sessions.remove("s1")
        done = await Move(source.transfers, target.transfers, name="f", page=8).run()
        assert await sums(target) == await sums(source)
        assert {one.table: one.rows for one in done}["sessions"] == 0
        await opened(room)
    finally:
        await target.close()


async def test_a_store_that_a_server_runs_on_is_not_moved(source, file, room):
    path = source.database.address.path
    for lock, is_shared in (
        (leases_repo.lock_beside(path), False),
        (leases_repo.use_lock_beside(path), True),
    ):
        assert lock.take(is_shared=is_shared)
        try:
            with pytest.raises(AlreadyHeld, match="stop it"):
                await store_moving.move(file, room, environ={})
        finally:
            lock.release()


@pytest.mark.parametrize(
    ("source_", "target"),
    [("postgresql://h/d", "/s"), ("/s", "/t"), ("/nosuch", "postgresql://h/d")],
    ids=["backwards", "into a file", "from nothing"],
)
async def test_a_store_moves_from_a_file_into_postgresql_alone(source_, target):
    with pytest.raises(Invalid, match=r"from a SQLite file into PostgreSQL|there is no store"):
        await store_moving.move(source_, target, environ={})


async def test_a_change_during_the_move_is_seen_at_its_end(source, room):
    target = await reopened(room)

    class Changing(Failing):
        async def put(self, name, rows):
            await self._tables.put(name, rows)
            if name == "api_keys":
                await source.keys.touch({"k0": 77.0})

    try:
        moving = Move(source.transfers, Changing(target.transfers, -1), name="f", page=100)
        with pytest.raises(Conflict, match="api_keys has 6 rows"):
            await moving.run()
    finally:
        await target.close()
