"""What requests used: a row each, parted by day where the database can, and sums of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

USABLE_FROM = "0001"


def upgrade() -> None:
    """Add their tables; nothing that was there changes."""
    op.create_table(
        "usage",
        sa.Column("entry_id", sa.Text, primary_key=True),
        sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text),
        sa.Column("project_id", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("served_model", sa.Text, nullable=False),
        sa.Column("endpoint", sa.Text, nullable=False),
        sa.Column("node_id", sa.Text, nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger, nullable=False),
        sa.Column("completion_tokens", sa.BigInteger, nullable=False),
        sa.Column("cached_tokens", sa.BigInteger),
        sa.Column("cost_micros", sa.BigInteger, nullable=False),
        sa.Column("prompt_per_1k", sa.BigInteger, nullable=False),
        sa.Column("completion_per_1k", sa.BigInteger, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("is_estimated", sa.Boolean, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("ttft_ms", sa.Float(53)),
        sa.Column("latency_ms", sa.Float(53)),
        postgresql_partition_by="RANGE (at)",
    )
    op.create_index("ix_usage_at", "usage", ["at"])
    _create_sums("usage_hours")
    _create_sums("usage_days")


def downgrade() -> None:
    """Take them away."""
    for name in ("usage_days", "usage_hours", "usage"):
        op.drop_table(name)


def _create_sums(name: str) -> None:
    op.create_table(
        name,
        sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("key_id", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("project_id", sa.Text, primary_key=True),
        sa.Column("model", sa.Text, primary_key=True),
        sa.Column("requests", sa.BigInteger, nullable=False),
        sa.Column("failed", sa.BigInteger, nullable=False),
        sa.Column("aborted", sa.BigInteger, nullable=False),
        sa.Column("lost", sa.BigInteger, nullable=False),
        sa.Column("estimated", sa.BigInteger, nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger, nullable=False),
        sa.Column("completion_tokens", sa.BigInteger, nullable=False),
        sa.Column("cached_tokens", sa.BigInteger, nullable=False),
        sa.Column("cost_micros", sa.BigInteger, nullable=False),
        sa.Column("latency_ms", sa.BigInteger, nullable=False),
        sa.Column("timed", sa.BigInteger, nullable=False),
    )
    op.create_index(f"ix_{name}_key_id", name, ["key_id", "at"])
