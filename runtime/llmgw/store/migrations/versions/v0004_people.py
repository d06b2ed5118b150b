"""The tree of organisations, teams and projects; people, their sessions; keys and limits."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

USABLE_FROM = "0001"


def upgrade() -> None:
    """Add their tables; nothing that was there changes."""
    _create_tree()
    _create_people()
    _create_keys()
    op.create_table(
        "limits",
        sa.Column("scope", sa.Text, primary_key=True),
        sa.Column("scope_id", sa.Text, primary_key=True),
        sa.Column("rpm", sa.BigInteger),
        sa.Column("tpm", sa.BigInteger),
        sa.Column("budget", sa.BigInteger),
        sa.Column("period", sa.Text, nullable=False),
        sa.Column("concurrency", sa.BigInteger),
        sa.Column("models", sa.JSON),
    )


def downgrade() -> None:
    """Take them away, those that point at others first."""
    for name in (
        "limits",
        "key_claims",
        "api_keys",
        "sessions",
        "users",
        "projects",
        "teams",
        "orgs",
    ):
        op.drop_table(name)


def _create_tree() -> None:
    op.create_table(
        "orgs",
        sa.Column("org_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "teams",
        sa.Column("team_id", sa.Text, primary_key=True),
        sa.Column("org_id", sa.Text, sa.ForeignKey("orgs.org_id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("org_id", "name"),
    )
    op.create_table(
        "projects",
        sa.Column("project_id", sa.Text, primary_key=True),
        sa.Column("team_id", sa.Text, sa.ForeignKey("teams.team_id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("team_id", "name"),
    )


def _create_people() -> None:
    op.create_table(
        "users",
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("email", sa.Text, nullable=False, unique=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("password_hash", sa.Text, nullable=False),
        sa.Column("project_id", sa.Text, sa.ForeignKey("projects.project_id")),
        sa.Column("is_admin", sa.Boolean, nullable=False),
        sa.Column("last_login_at", sa.BigInteger),
        sa.Column("approved_by", sa.Text, nullable=False),
        sa.Column("approved_at", sa.BigInteger),
        sa.Column("issuer", sa.Text),
        sa.Column("subject", sa.Text),
        sa.UniqueConstraint("issuer", "subject"),
    )
    op.create_table(
        "sessions",
        sa.Column("token_hash", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, sa.ForeignKey("users.user_id"), nullable=False),
        sa.Column("csrf_hash", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("last_seen_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_sessions_user_id", "sessions", ["user_id"])
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])


def _create_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("key_id", sa.Text, primary_key=True),
        sa.Column("key_hash", sa.Text, nullable=False, unique=True),
        sa.Column("previous_hash", sa.Text, unique=True),
        sa.Column("previous_until", sa.BigInteger),
        sa.Column("prefix", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("project_id", sa.Text, sa.ForeignKey("projects.project_id"), nullable=False),
        sa.Column("user_id", sa.Text, sa.ForeignKey("users.user_id")),
        sa.Column("band", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
        sa.Column("last_used_at", sa.BigInteger),
    )
    op.create_index("ix_api_keys_project_id", "api_keys", ["project_id"])
    op.create_index("ix_api_keys_user_id", "api_keys", ["user_id"])
    op.create_table(
        "key_claims",
        sa.Column("token_hash", sa.Text, primary_key=True),
        sa.Column("key_id", sa.Text, sa.ForeignKey("api_keys.key_id"), nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("claimed_at", sa.BigInteger),
    )
    op.create_index("ix_key_claims_key_id", "key_claims", ["key_id"])
