"""Jobs, what they tell, and the node that each works on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

USABLE_FROM = "0001"


def upgrade() -> None:
    """Add the tables of jobs; nothing that was there changes."""
    op.create_table(
        "jobs",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("playbook", sa.Text, nullable=False),
        sa.Column("targets", sa.JSON, nullable=False),
        sa.Column("requested_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("variables", sa.JSON, nullable=False),
        sa.Column("is_check", sa.Boolean, nullable=False),
        sa.Column("parent", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("beat_at", sa.BigInteger),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("return_code", sa.Integer),
        sa.Column("summary", sa.JSON, nullable=False),
        sa.Column("is_cancel_requested", sa.Boolean, nullable=False),
    )
    op.create_index("ix_jobs_created_at", "jobs", ["created_at"])
    op.create_index("ix_jobs_state", "jobs", ["state"])
    op.create_table(
        "job_events",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("counter", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("play", sa.Text, nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("stdout", sa.Text, nullable=False),
        sa.Column("duration_ms", sa.BigInteger),
    )
    op.create_index("ix_job_events_at", "job_events", ["at"])
    op.create_table(
        "node_claims",
        sa.Column("node_id", sa.Text, primary_key=True),
        sa.Column("job_id", sa.Text, nullable=False),
    )
    op.create_index("ix_node_claims_job_id", "node_claims", ["job_id"])


def downgrade() -> None:
    """Take the tables of jobs away."""
    for name in ("node_claims", "job_events", "jobs"):
        op.drop_table(name)
