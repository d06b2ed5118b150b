"""Nodes as they are known when they do not speak: enrolled, flagged by somebody, last seen.

What runs on them is not here: the fleet tells that itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.domain.nodes import NodeTarget
from llmgw.domain.stored import AuditEntry, NodeFlag, StoredNode
from llmgw.errors import Unknown
from llmgw.store import audit_repo, fencing, upserting
from llmgw.store.database import Database
from llmgw.store.tables import nodes


class NodesRepo:
    """The rows of nodes; each change may bring its entry of the audit log."""

    def __init__(self, database: Database) -> None:
        """Nodes of one store."""
        self._database = database

    async def all(self) -> Sequence[StoredNode]:
        """Every node, in the order of their ids."""

        async def work(connection: AsyncConnection) -> Sequence[Row[Any]]:
            return (await connection.execute(select(nodes).order_by(nodes.c.node_id))).all()

        return [_node(row) for row in await self._database.read(work)]

    async def find(self, node_id: str) -> StoredNode | None:
        """One node, where it is known."""

        async def work(connection: AsyncConnection) -> Row[Any] | None:
            query = select(nodes).where(nodes.c.node_id == node_id)
            return (await connection.execute(query)).first()

        row = await self._database.read(work)
        return None if row is None else _node(row)

    async def enrol(
        self,
        node_id: str,
        *,
        access: Mapping[str, object],
        at: float,
        entry: AuditEntry | None = None,
    ) -> None:
        """A node shall join, or is reached another way from now on; flags and facts stay."""
        await self._upsert(node_id, {"access": access}, at=at, entry=entry)

    async def registered(self, node_id: str, facts: Mapping[str, object], *, at: float) -> None:
        """A node said what it is; one that nobody has enrolled is from now on."""
        await self._upsert(node_id, {"facts": facts, "seen_at": at}, at=at, entry=None)

    async def seen(self, told: Mapping[str, Mapping[str, object]], *, at: float) -> None:
        """These nodes were there, and said this of themselves; new ones are enrolled with that."""
        rows = [
            {**_row(StoredNode(node_id=name, enrolled_at=at)), "facts": facts, "seen_at": at}
            for name, facts in sorted(told.items())
        ]

        async def work(connection: AsyncConnection) -> None:
            statement = upserting.insert(connection, nodes)
            new = {"facts": statement.excluded.facts, "seen_at": statement.excluded.seen_at}
            upsert = statement.on_conflict_do_update(index_elements=["node_id"], set_=new)
            # One statement for each: a single one of many rows takes its time to be written.
            await connection.execute(upsert, rows)

        await self._database.write(work)

    async def prune(self, *, before: float) -> int:
        """Let go of nodes that were seen last before a time and of which nobody said anything."""
        is_idle = (nodes.c.target == str(NodeTarget.READY)) & ~nodes.c.is_banned

        async def work(connection: AsyncConnection) -> int:
            gone = delete(nodes).where(nodes.c.seen_at < before, is_idle)
            return (await connection.execute(gone)).rowcount

        return await self._database.write(work)

    async def flag(
        self, node_id: str, flag: NodeFlag, *, owner: str = "", entry: AuditEntry | None = None
    ) -> None:
        """Keep an operator's word, until the next one; ``Standby`` unless ``owner`` leads."""
        values = {
            "target": str(flag.target),
            "reason": flag.reason,
            "actor": flag.actor,
            "since": flag.at,
        }
        await self._upsert(node_id, values, at=flag.at, owner=owner, entry=entry)

    async def ban(
        self, node_id: str, *, is_banned: bool, owner: str = "", entry: AuditEntry | None = None
    ) -> None:
        """Believe its certificate no longer, or again; ``Unknown`` node, ``Standby``."""

        async def work(connection: AsyncConnection) -> None:
            await fencing.check(connection, owner=owner)
            changed = await connection.execute(
                update(nodes).where(nodes.c.node_id == node_id).values(is_banned=is_banned)
            )
            if changed.rowcount == 0:
                raise Unknown(f"no node {node_id} is known")
            await audit_repo.write(connection, entry)

        await self._database.write(work)

    async def forget(
        self, node_id: str, *, owner: str = "", entry: AuditEntry | None = None
    ) -> None:
        """Let go of a node; ``Unknown`` where it is not there, ``Standby`` unless one leads."""

        async def work(connection: AsyncConnection) -> None:
            await fencing.check(connection, owner=owner)
            gone = await connection.execute(delete(nodes).where(nodes.c.node_id == node_id))
            if gone.rowcount == 0:
                raise Unknown(f"no node {node_id} is known")
            await audit_repo.write(connection, entry)

        await self._database.write(work)

    async def _upsert(
        self,
        node_id: str,
        values: Mapping[str, object],
        *,
        at: float,
        owner: str = "",
        entry: AuditEntry | None,
    ) -> None:
        row = {**_row(StoredNode(node_id=node_id, enrolled_at=at)), **values}

        async def work(connection: AsyncConnection) -> None:
            await fencing.check(connection, owner=owner)
            statement = upserting.insert(connection, nodes).values(row)
            await connection.execute(
                statement.on_conflict_do_update(index_elements=["node_id"], set_=dict(values))
            )
            await audit_repo.write(connection, entry)

        await self._database.write(work)


def _node(row: Row[Any]) -> StoredNode:
    values = dict(row._mapping)  # noqa: SLF001 - public; the dash is against columns' names
    return StoredNode(**{**values, "target": _target(values["target"])})


def _target(word: str) -> NodeTarget:
    """A word that this release does not know keeps replicas away, and stops nothing else."""
    try:
        return NodeTarget(word)
    except ValueError:
        return NodeTarget.CORDONED


def _row(node: StoredNode) -> dict[str, object]:
    values = {column.name: getattr(node, column.name) for column in nodes.columns}
    return {**values, "target": str(node.target)}
