"""Stores to test with: an empty SQLite file, an empty PostgreSQL database."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil

import pytest

from llmgw.config import store_address
from llmgw.store.database import Sizing
from llmgw.store.opening import Store
from tests.fakes import tenants

KINDS = ("sqlite", "postgresql")

_numbers = itertools.count()


def make_address(kind, request):
    """The address of an empty store, as a person would write it."""
    if kind == "sqlite":
        return str(request.getfixturevalue("tmp_path") / "store.db")
    return make_room(request.getfixturevalue("postgres"))


def make_room(postgres, **changed):
    """The address of an empty store on PostgreSQL."""
    return postgres.make_room(f"store_{os.getpid()}_{next(_numbers)}", **changed)


@pytest.fixture(params=KINDS)
def address(request):
    """Where an empty store is, on each database in turn."""
    return make_address(request.param, request)


@pytest.fixture
async def opened():
    """Opens stores, as many as asked for on one address, and closes them."""
    stores = []

    async def open_store(text, *, may_migrate=True, timeout_s=20.0):
        made = Store(store_address.parse(text), sizing=Sizing(timeout_s=timeout_s))
        stores.append(made)
        await made.open(may_migrate=may_migrate)
        return made

    yield open_store
    for store in stores:
        await store.close()


@pytest.fixture
async def store(address, opened):
    """An open store with nothing in it."""
    return await opened(address)


@pytest.fixture(scope="session")
def planted_file(tmp_path_factory):
    """A SQLite store with a small tree in it, to be copied: making one takes a while."""
    path = tmp_path_factory.mktemp("planted") / "store.db"

    async def make():
        made = Store(store_address.parse(str(path)))
        await made.open(may_migrate=True)
        await tenants.plant(made)
        await made.close()

    asyncio.run(make())
    return path


@pytest.fixture
async def planted(planted_file, tmp_path, opened):
    """An open store with a small tree in it."""
    return await opened(str(shutil.copy(planted_file, tmp_path / "store.db")))
