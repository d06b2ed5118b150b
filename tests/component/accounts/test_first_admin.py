"""The first administrator is made once, with the first project; a second run changes nothing."""

from __future__ import annotations

import pytest

from llmgw.config import loading
from llmgw.domain.actors import Actor
from llmgw.domain.tenancy import DEFAULT
from llmgw.errors import Conflict, NotAnEmail
from llmgw.kit.clock import SystemClock
from llmgw.serve import accounts as serve_accounts
from llmgw.serve import first_admin

ANN = Actor("ann", origin="cli")


@pytest.fixture
def address(tmp_path):
    return str(tmp_path / "store.db")


@pytest.fixture
def settings(address):
    return loading.load_server(None, environ={"LLMGW_AUTH__STORE": address})


async def make(settings, email="Ann@example.org"):
    return await first_admin.make(settings, environ={}, email=email, actor=ANN)


async def test_it_signs_in_with_the_password_that_was_shown_once(settings, address, opened):
    made = await make(settings)
    assert await make(settings) == first_admin.FirstAdmin("ann@example.org", password=None)
    store = await opened(address, may_migrate=False)
    clock = SystemClock()
    accounts = serve_accounts.joined(store, settings=settings, clock=clock).people.accounts
    session = await accounts.sign_in(email="ann@example.org", password=made.password)
    _, user = await accounts.resolve(session.token)
    assert (user.is_admin, user.project_id) == (True, DEFAULT)
    told = [one.action for one in await store.audit.page()]
    assert told == ["user.create", "tree.init"]


async def test_who_has_an_account_is_not_made_an_administrator_in_passing(
    settings, address, opened
):
    await make(settings)
    store = await opened(address, may_migrate=False)
    (ann,) = await store.people.all()
    await store.people.set_admin(ann.user_id, is_admin=False)
    await store.tree.rename("project", DEFAULT, "chat")
    with pytest.raises(Conflict, match=r"llmgw users promote ann@example\.org"):
        await make(settings)
    assert (await store.tree.read()).projects[0].name == "chat"
    with pytest.raises(NotAnEmail):
        await make(settings, "nobody")
