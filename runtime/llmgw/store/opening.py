"""One store with its repositories, as ``serve`` and commands open it; and who may.

A file belongs to one user. Another one that opened it would leave files beside it that the owner
may not write, and stop the server: root becomes the owner first, anybody else is refused.
"""

from __future__ import annotations

import os
import pwd

from llmgw.config.store_address import StoreAddress
from llmgw.errors import Denied
from llmgw.store.audit_repo import AuditRepo
from llmgw.store.capacity_repo import CapacityRepo
from llmgw.store.claims_repo import ClaimsRepo
from llmgw.store.database import Database, Sizing
from llmgw.store.job_events_repo import JobEventsRepo
from llmgw.store.jobs_repo import JobsRepo
from llmgw.store.keys_repo import KeysRepo
from llmgw.store.leases_repo import LeasesRepo
from llmgw.store.limits_repo import LimitsRepo
from llmgw.store.models_repo import ModelsRepo
from llmgw.store.nodes_repo import NodesRepo
from llmgw.store.people_repo import PeopleRepo
from llmgw.store.rolls_repo import RollsRepo
from llmgw.store.sessions_repo import SessionsRepo
from llmgw.store.table_copies import Transfers
from llmgw.store.tree_repo import TreeRepo
from llmgw.store.usage_repo import UsageRepo
from llmgw.store.usage_sums_repo import UsageSumsRepo


class Store:
    """Everything that one store keeps."""

    def __init__(self, address: StoreAddress, *, sizing: Sizing | None = None) -> None:
        """Nothing is opened yet."""
        self.database = Database(address, sizing=sizing)
        self.models = ModelsRepo(self.database)
        self.nodes = NodesRepo(self.database)
        self.rolls = RollsRepo(self.database)
        self.leases = LeasesRepo(self.database)
        self.capacity = CapacityRepo(self.database)
        self.audit = AuditRepo(self.database)
        self.jobs = JobsRepo(self.database)
        self.job_events = JobEventsRepo(self.database)
        self.tree = TreeRepo(self.database)
        self.people = PeopleRepo(self.database)
        self.sessions = SessionsRepo(self.database)
        self.keys = KeysRepo(self.database)
        self.claims = ClaimsRepo(self.database)
        self.limits = LimitsRepo(self.database)
        self.transfers = Transfers(self.database)
        self.usage = UsageRepo(self.database)
        self.usage_sums = UsageSumsRepo(self.database)

    async def open(
        self, *, may_migrate: bool, may_create: bool = False, may_fill: bool = False
    ) -> None:
        """Connect and see to the schema; a second time it costs nothing.

        The server may migrate, a command may not: it would do so under a server that runs. Some
        commands may make the tables of an empty store, which no server uses yet.
        """
        await self.database.open(may_migrate=may_migrate, may_create=may_create, may_fill=may_fill)

    async def close(self) -> None:
        """Leave; what was written stays."""
        await self.database.close()


def check_owner(address: StoreAddress) -> None:
    """``Denied`` where the store's file belongs to another user than this process runs as."""
    owner = _owner(address)
    if owner is not None and owner != os.geteuid():
        raise Denied(
            f"the store {address.shown} belongs to the user {_name(owner)}; run this as that user: "
            f"sudo -u {_name(owner)} …"
        )


def become_owner(address: StoreAddress) -> None:
    """Have root go on as the owner of the store's file; ``Denied`` for anybody else but the owner.

    For commands, before they open it; what they open afterwards they open as that user.
    """
    owner = _owner(address)
    if owner is not None and os.geteuid() == 0 and owner != 0:
        entry = pwd.getpwuid(owner)
        os.initgroups(entry.pw_name, entry.pw_gid)
        os.setgid(entry.pw_gid)
        os.setuid(owner)
    check_owner(address)


def _owner(address: StoreAddress) -> int | None:
    """Who owns the file; nobody owns a server elsewhere.

    A file that is not there yet becomes the one's who makes it, but root would make it in a folder
    of somebody else, who is then its owner.
    """
    if address.path is None:
        return None
    places = (address.path, address.path.parent) if os.geteuid() == 0 else (address.path,)
    for place in places:
        try:
            return place.stat().st_uid
        except FileNotFoundError:
            continue
        except OSError as error:
            raise Denied(
                f"the store {address.shown} cannot be looked at: {error.strerror}; run this as "
                "the user that the server runs as"
            ) from error
    return None


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
