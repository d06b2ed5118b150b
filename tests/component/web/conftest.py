"""A store with a small tree in it: made once, copied for each test."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from llmgw.config import store_address
from llmgw.store.opening import Store
from tests.fakes import tenants


@pytest.fixture(scope="session")
def planted(tmp_path_factory):
    """A file that nobody writes to any more."""
    path = tmp_path_factory.mktemp("planted") / "store.db"

    async def make():
        made = Store(store_address.parse(str(path)))
        await made.open(may_migrate=True)
        await tenants.plant(made)
        await made.close()

    asyncio.run(make())
    return path


@pytest.fixture
async def store(planted, tmp_path, opened):
    return await opened(shutil.copy(planted, tmp_path / "store.db").as_posix())
