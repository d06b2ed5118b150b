"""Joins one store with what is done about people, keys and the tree above them.

For the server, whose admin API tells of each act itself, and for commands that open the store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from llmgw.accounts.directory import Directory
from llmgw.accounts.keys import KeyMaking
from llmgw.accounts.noting import Telling
from llmgw.accounts.sealing import Claiming
from llmgw.config import store_address
from llmgw.config.settings import ServerSettings
from llmgw.config.store_address import StoreAddress
from llmgw.errors import NoStore
from llmgw.kit.clock import Clock, SystemClock
from llmgw.serve import people
from llmgw.serve.people import People
from llmgw.store import opening
from llmgw.store.database import Sizing
from llmgw.store.opening import Store

_CONNECTIONS = 2
"""Of a command, beside a server that has its own."""


@dataclass(frozen=True, slots=True)
class Accounts:
    """People, keys and places of one store."""

    store: Store
    directory: Directory
    keys: KeyMaking
    claiming: Claiming
    people: People
    clock: Clock


def joined(
    store: Store, *, settings: ServerSettings, clock: Clock, tells_acts: bool = False
) -> Accounts:
    """What is done about all that; ``tells_acts`` where nobody else tells the log of acts."""
    telling = Telling(store.audit if tells_acts else None, clock=clock)
    return Accounts(
        store=store,
        directory=Directory(
            tree=store.tree, keys=store.keys, limits=store.limits, clock=clock, telling=telling
        ),
        keys=KeyMaking(
            store.keys,
            clock=clock,
            telling=telling,
            bands=tuple(band.name for band in settings.admission.bands),
        ),
        claiming=Claiming(store.claims, clock=clock),
        people=people.joined(store, auth=settings.auth, clock=clock, telling=telling),
        clock=clock,
    )


@asynccontextmanager
async def opened(
    settings: ServerSettings, *, environ: Mapping[str, str], may_create: bool = False
) -> AsyncIterator[Accounts]:
    """The store of the settings, for one command; ``NoStore`` where they name none.

    Root goes on as the owner of its file. ``may_create`` makes the tables of an empty one.
    """
    async with store_at(address_of(settings, environ=environ), may_create=may_create) as store:
        yield joined(store, settings=settings, clock=SystemClock(), tells_acts=True)


@asynccontextmanager
async def store_at(
    address: StoreAddress,
    *,
    may_create: bool = False,
    may_fill: bool = False,
    sizing: Sizing | None = None,
) -> AsyncIterator[Store]:
    """A store, for one command, as the user who owns it."""
    opening.become_owner(address)
    store = Store(address, sizing=sizing or Sizing(connections=_CONNECTIONS))
    try:
        await store.open(may_migrate=False, may_create=may_create, may_fill=may_fill)
        yield store
    finally:
        await store.close()


def address_of(settings: ServerSettings, *, environ: Mapping[str, str]) -> StoreAddress:
    """Where the store of a server is; ``NoStore`` where there is none."""
    if not settings.auth.store:
        raise NoStore(
            "people and keys are kept in the store, and these settings name none: set auth.store, "
            "as in 'store: /var/lib/llmgw/store.db', or name one with --store"
        )
    return store_address.resolve(settings.auth.store, environ=environ)
