"""What goes wrong with a store is said in a sentence that helps, and never hangs."""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from sqlalchemy import text

from llmgw.config import store_address
from llmgw.errors import (
    Conflict,
    DeadlinePassed,
    Denied,
    Invalid,
    Unavailable,
    Unreachable,
)
from llmgw.store import opening
from llmgw.store.database import Sizing
from llmgw.store.opening import Store
from tests.fakes.postgres import free_port
from tests.fakes.stores import make_room


async def run(store, statement):
    async def work(connection):
        return (await connection.execute(text(statement))).scalar()

    return await store.database.write(work)


async def test_a_wrong_password_is_told_without_it(postgres, opened):
    wrong = make_room(postgres).replace("s3cret", "hunter2")
    with pytest.raises(Denied, match="refuses the password or the user") as refused:
        await opened(wrong)
    assert "hunter2" not in str(refused.value)


async def test_a_server_that_is_not_there_is_unreachable(postgres, opened):
    url = f"postgresql://llmgw:hunter2@127.0.0.1:{free_port()}/llmgw"
    with pytest.raises(Unreachable, match="does not answer; check that it runs") as refused:
        await opened(url)
    assert "hunter2" not in str(refused.value)


async def test_a_database_that_is_not_there_is_told(postgres, opened):
    with pytest.raises(Invalid, match="has no such database; create it"):
        await opened(postgres.url("nowhere"))


async def test_a_folder_that_is_no_folder_is_told(tmp_path, opened):
    (tmp_path / "file").touch()
    with pytest.raises(Invalid, match=r"cannot be opened: .*must be writable"):
        await opened(str(tmp_path / "file" / "store.db"))


async def test_a_file_that_is_no_database_is_told(tmp_path, opened):
    path = tmp_path / "store.db"
    path.write_text("once upon a time " * 100)
    with pytest.raises(Invalid, match="is no SQLite database; name another file"):
        await opened(str(path))


async def test_the_file_is_its_owner_s_alone(tmp_path, opened):
    path = tmp_path / "deep" / "store.db"
    store = await opened(str(path))
    await store.models.all()
    assert path.stat().st_mode & 0o777 == 0o600
    assert {beside.stat().st_mode & 0o077 for beside in path.parent.iterdir()} == {0}


async def test_another_writer_that_does_not_end_is_told(tmp_path, opened, monkeypatch):
    monkeypatch.setattr("llmgw.store.database.BUSY_S", 0.1)
    store = await opened(str(tmp_path / "store.db"), timeout_s=2.0)
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(Unavailable, match="busy with another writer"):
            await store.nodes.enrol("n1", access={}, at=1.0)
        assert await store.nodes.all() == []
    finally:
        other.close()
    await store.nodes.enrol("n1", access={}, at=1.0)
    assert len(await store.nodes.all()) == 1


async def test_a_store_whose_caller_gave_up_behind_a_writer_is_left_and_nothing_of_it_stays(
    tmp_path, monkeypatch
):
    """The driver's thread still waits then; a loop that ends under it would never end."""
    monkeypatch.setattr("llmgw.store.database.BUSY_S", 0.4)
    store = Store(store_address.parse(str(tmp_path / "store.db")), sizing=Sizing())
    await store.open(may_migrate=True)
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await store.nodes.enrol("n1", access={}, at=1.0)
    other.close()
    await store.close()
    assert [task.get_name() for task in asyncio.all_tasks()] == [asyncio.current_task().get_name()]


async def test_a_statement_that_takes_too_long_is_ended_by_the_server(postgres, opened):
    store = await opened(make_room(postgres), timeout_s=1.0)
    with pytest.raises(DeadlinePassed, match=r"longer than auth\.store_timeout_s"):
        await run(store, "SELECT pg_sleep(30)")
    assert await run(store, "SELECT 1") == 1


async def test_a_server_that_stands_still_holds_nobody_longer_than_the_bound(postgres, opened):
    store = await opened(make_room(postgres), timeout_s=3.0)
    await store.models.all()
    postgres.signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises((DeadlinePassed, Unreachable)):
            await store.models.all()
        assert time.monotonic() - began < 15
    finally:
        postgres.signal(signal.SIGCONT)
    assert await store.models.all() == []


async def test_a_cancelled_caller_does_not_wait_for_a_server_that_stands_still(postgres, opened):
    store = await opened(make_room(postgres), timeout_s=30.0)
    await store.models.all()
    postgres.signal(signal.SIGSTOP)
    try:
        asking = asyncio.create_task(store.models.all())
        await asyncio.sleep(0.2)
        began = time.monotonic()
        asking.cancel()
        await asyncio.wait({asking}, timeout=30)
        assert time.monotonic() - began < 10
        assert asking.cancelled()
    finally:
        postgres.signal(signal.SIGCONT)
    assert await store.models.all() == []


async def test_a_connection_that_the_server_ended_is_replaced(postgres, opened):
    store = await opened(make_room(postgres))
    others = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "
    postgres.execute(f"{others} application_name = 'llmgw' AND pid <> pg_backend_pid()")
    assert await store.models.all() == []


async def test_a_pool_that_is_too_small_is_told(postgres):
    store = Store(
        store_address.parse(make_room(postgres)), sizing=Sizing(connections=2, timeout_s=1.0)
    )
    await store.open(may_migrate=True)
    done = await asyncio.gather(
        *(run(store, "SELECT pg_sleep(0.9)") for _ in range(6)), return_exceptions=True
    )
    await store.close()
    told = [str(one) for one in done if isinstance(one, Unavailable)]
    assert any("auth.store_connections" in one for one in told)


async def test_statements_and_passwords_are_in_no_log(postgres, opened, caplog):
    caplog.set_level(logging.DEBUG)
    store = await opened(make_room(postgres))
    await store.nodes.enrol("n1", access={"host": "secret-host"}, at=1.0)
    with pytest.raises(Conflict):
        await run(store, "INSERT INTO leases VALUES ('x', 'c4nary', NULL, '', 1)")
    assert "s3cret" not in caplog.text + repr(store.database.address)
    assert "secret-host" not in caplog.text


@pytest.fixture
def open_folder():
    """A folder that every user can reach, as those of other tests cannot be."""
    with tempfile.TemporaryDirectory(prefix="llmgw-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


OPENING = """
import os, sys
from llmgw.config import store_address
from llmgw.store import opening
address = store_address.parse(sys.argv[1])
try:
    opening.check_owner(address)
except Exception as refusal:
    print(refusal)
opening.become_owner(address)
opening.check_owner(address)
print(os.geteuid(), os.getegid())
"""


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


@needs_root
def test_root_makes_no_file_in_the_folder_of_somebody_else(open_folder):
    nobody = pwd.getpwnam("nobody")
    address = store_address.parse(str(open_folder / "store.db"))
    opening.check_owner(address)
    os.chown(open_folder, nobody.pw_uid, nobody.pw_gid)
    with pytest.raises(Denied, match="belongs to the user nobody"):
        opening.check_owner(address)


@needs_root
def test_root_opens_a_file_as_its_owner_and_others_are_refused(open_folder):
    nobody = pwd.getpwnam("nobody")
    path = open_folder / "store.db"
    path.touch()
    for place in (open_folder, path):
        os.chown(place, nobody.pw_uid, nobody.pw_gid)
    done = subprocess.run(
        [sys.executable, "-c", OPENING, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told, ids = done.stdout.splitlines()
    assert "belongs to the user nobody; run this as that user: sudo -u nobody" in told
    assert ids == f"{nobody.pw_uid} {nobody.pw_gid}"


async def test_a_file_that_was_taken_away_takes_nothing_until_it_is_back(opened, tmp_path):
    """What goes to a file without a name is lost, so nothing may be let go of for it."""
    path, aside = tmp_path / "store.db", tmp_path / "aside.db"
    store = await opened(str(path))
    path.rename(aside)
    with pytest.raises(Unreachable, match="put that one back"):
        await run(store, "SELECT 1")
    path.write_bytes(b"")
    with pytest.raises(Unreachable, match="another file than the one that was opened"):
        await run(store, "SELECT 1")
    aside.rename(path)
    assert await run(store, "SELECT 1") == 1


async def test_a_connection_that_may_only_read_is_not_kept(opened, tmp_path):
    """SQLite opens a file that it may not write just then all the same, and it stays so."""
    store = await opened(str(tmp_path / "store.db"))

    async def have_it_read_only(connection):
        await connection.execute(text("PRAGMA query_only = ON"))

    async def make(connection):
        await connection.execute(text("CREATE TABLE made (a INTEGER)"))

    await store.database.write(have_it_read_only)
    with pytest.raises(Denied, match="may not be written") as refused:
        await store.database.write(make)
    assert refused.value.names_the_store
    async with asyncio.timeout(5):
        await store.database.write(make)
