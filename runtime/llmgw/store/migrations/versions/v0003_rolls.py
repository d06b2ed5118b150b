"""Rolls of models that are under way."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

USABLE_FROM = "0001"


def upgrade() -> None:
    """Add their table; nothing that was there changes."""
    op.create_table(
        "rolls",
        sa.Column("model", sa.Text, primary_key=True),
        sa.Column("begun_at", sa.BigInteger, nullable=False),
        sa.Column("may_interrupt", sa.Boolean, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("halted", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Take it away."""
    op.drop_table("rolls")
