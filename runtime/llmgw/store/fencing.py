"""Keeps what a leader writes from being written after its lead: asked in the same transaction.

The row of the lease stays as it is until the transaction ends, so whoever takes it next sees all
that was written under it.
"""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.errors import Standby
from llmgw.store.tables import leases

LEADER = "leader"
"""The name of the lease of the control plane."""


async def check(connection: AsyncConnection, *, owner: str) -> None:
    """``Standby`` where somebody else has taken the lease; nobody asks without an ``owner``."""
    if not owner:
        return
    held = select(leases.c.owner, leases.c.address).where(leases.c.name == LEADER)
    # SQLite has one writer at a time, and knows no such words.
    row = (await connection.execute(held.with_for_update(read=True))).first()
    if row is not None and row.owner != owner:
        raise Standby(
            f"this control plane leads no more, so nothing was changed; ask {row.address}",
            leader=row.address,
        )
