"""Models, nodes, leases, capacity, audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

USABLE_FROM = "0001"


def upgrade() -> None:
    """Make the first tables."""
    op.create_table(
        "schema_facts",
        sa.Column("revision", sa.Text, primary_key=True),
        sa.Column("usable_from", sa.Text, nullable=False),
    )
    op.create_table(
        "models",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("definition", sa.JSON, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    _create_nodes()
    op.create_table(
        "leases",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("term", sa.BigInteger, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "capacity",
        sa.Column("model", sa.Text, primary_key=True),
        sa.Column("profile", sa.Text, primary_key=True),
        sa.Column("result", sa.JSON, nullable=False),
        sa.Column("slo", sa.JSON, nullable=False),
        sa.Column("measured_at", sa.BigInteger, nullable=False),
    )
    _create_audit()


def downgrade() -> None:
    """Take all of it away."""
    for name in ("audit", "capacity", "leases", "nodes", "models", "schema_facts"):
        op.drop_table(name)


def _create_nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("node_id", sa.Text, primary_key=True),
        sa.Column("enrolled_at", sa.BigInteger, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("since", sa.BigInteger),
        sa.Column("is_banned", sa.Boolean, nullable=False),
        sa.Column("access", sa.JSON, nullable=False),
        sa.Column("facts", sa.JSON, nullable=False),
        sa.Column("seen_at", sa.BigInteger),
    )


def _create_audit() -> None:
    serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "audit",
        sa.Column("entry_id", serial, primary_key=True, autoincrement=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("before", sa.JSON),
        sa.Column("after", sa.JSON),
        sa.Column("request_id", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_at", "audit", ["at"])
