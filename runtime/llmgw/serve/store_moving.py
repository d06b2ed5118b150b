"""Joins two stores for the move of one into the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from llmgw.accounts.relocating import Move
from llmgw.config import store_address
from llmgw.config.store_address import StoreAddress
from llmgw.domain.copies import Copied
from llmgw.errors import AlreadyHeld, Invalid
from llmgw.serve import accounts
from llmgw.store import leases_repo
from llmgw.store.database import Sizing

_SIZING = Sizing(connections=2, timeout_s=60.0)
"""A page of rows is written in one transaction, on a database that may have other work."""


async def move(
    source: str,
    target: str,
    *,
    environ: Mapping[str, str],
    on_table: Callable[[Copied], None] = lambda _: None,
) -> Sequence[Copied]:
    """Copy a SQLite file into an empty PostgreSQL database, and prove it.

    ``AlreadyHeld`` while a server runs on the file, ``Invalid`` for addresses of another kind.
    """
    before, after = (store_address.resolve(text, environ=environ) for text in (source, target))
    path = _checked(before, after)
    async with accounts.store_at(before, sizing=_SIZING) as old:
        locks = (leases_repo.lock_beside(path), leases_repo.use_lock_beside(path))
        try:
            if not all(lock.take() for lock in locks):
                raise AlreadyHeld(
                    f"a server runs on {before.shown}: stop it, then move; "
                    "its workers, and gateways on other hosts, serve on meanwhile"
                )
            async with accounts.store_at(
                after, may_create=True, may_fill=True, sizing=_SIZING
            ) as new:
                moving = Move(old.transfers, new.transfers, name=before.shown, on_table=on_table)
                return await moving.run()
        finally:
            for lock in locks:
                lock.release()


def _checked(before: StoreAddress, after: StoreAddress) -> Path:
    """The file that is moved."""
    if before.path is None or after.path is not None:
        raise Invalid(
            "a store moves from a SQLite file into PostgreSQL: give --from /path/to/store.db and "
            "--to postgresql://…, or @/file that holds it"
        )
    if not before.path.is_file():
        raise Invalid(f"there is no store {before.shown}")
    return before.path
