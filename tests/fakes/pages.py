"""The pages over an empty store, and a browser that looks at them."""

from __future__ import annotations

import re

import httpx

from llmgw.accounts.directory import Directory
from llmgw.accounts.keys import KeyMaking
from llmgw.accounts.noting import Telling
from llmgw.accounts.passwords import Cost, Passwords
from llmgw.accounts.sealing import Claiming
from llmgw.accounts.signing_in import Policy, SigningIn
from llmgw.web.page_app import Rooms, create_app

URL = "http://llm.example"
QUICK = Cost(time=1, memory_kib=64, parallelism=1)
PASSWORD = "correct horse battery"
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


def rooms(store, clock, *, login=None):
    """What the pages are over, with hashes that take no time."""
    telling = Telling(store.audit, clock=clock)
    return Rooms(
        accounts=SigningIn(
            users=store.people,
            sessions=store.sessions,
            passwords=Passwords(QUICK),
            clock=clock,
            policy=Policy(max_attempts=3),
        ),
        keys=KeyMaking(store.keys, clock=clock, telling=telling),
        claiming=Claiming(store.claims, clock=clock),
        directory=Directory(
            tree=store.tree, keys=store.keys, limits=store.limits, clock=clock, telling=telling
        ),
        clock=clock,
        login=login,
    )


class Browser:
    """One browser with its cookies; never follows a redirect by itself."""

    def __init__(self, app, *, url=URL):
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=url)

    async def get(self, path, **given):
        return await self.client.get(path, **given)

    async def send(self, path, *, headers=None, **fields):
        """A form as it stands, without looking at the page first."""
        return await self.client.post(path, data=fields, headers=headers)

    async def fill(self, path, *, page="/profile", **fields):
        """The form of a page that this browser looks at first."""
        shown = await self.get(page)
        return await self.send(path, csrf=_CSRF.search(shown.text)[1], **fields)

    async def sign_in(self, email="ann@example.org", password=PASSWORD):
        return await self.send("/login", email=email, password=password)


def make_app(store, clock, *, login=None, **given):
    return create_app(rooms(store, clock, login=login), **given)
