"""The tables as this release reads and writes them; ``migrations`` makes them.

A test holds the two together. Times are whole milliseconds in 64 bits.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)


class At(TypeDecorator[float]):
    """Seconds since 1970 in Python, whole milliseconds in the store."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> int | None:  # noqa: ARG002 - SQLAlchemy's signature
        """To the store."""
        return None if value is None else round(value * 1000)

    def process_result_value(self, value: int | None, dialect: Dialect) -> float | None:  # noqa: ARG002 - see above
        """From the store."""
        return None if value is None else value / 1000


metadata = MetaData()

_SERIAL = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts only a column of exactly this type up by itself."""

schema_facts = Table(
    "schema_facts",
    metadata,
    Column("revision", Text, primary_key=True),
    Column("usable_from", Text, nullable=False),
)

models = Table(
    "models",
    metadata,
    Column("name", Text, primary_key=True),
    Column("definition", JSON, nullable=False),
    Column("actor", Text, nullable=False),
    Column("created_at", At, nullable=False),
    Column("updated_at", At, nullable=False),
    Column("revision", Integer, nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    Column("node_id", Text, primary_key=True),
    Column("enrolled_at", At, nullable=False),
    Column("target", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("since", At),
    Column("is_banned", Boolean, nullable=False),
    Column("access", JSON, nullable=False),
    Column("facts", JSON, nullable=False),
    Column("seen_at", At),
)

rolls = Table(
    "rolls",
    metadata,
    Column("model", Text, primary_key=True),
    Column("begun_at", At, nullable=False),
    Column("may_interrupt", Boolean, nullable=False),
    Column("actor", Text, nullable=False),
    Column("halted", Text, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("term", BigInteger, nullable=False),
    Column("address", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)

capacity = Table(
    "capacity",
    metadata,
    Column("model", Text, primary_key=True),
    Column("profile", Text, primary_key=True),
    Column("result", JSON, nullable=False),
    Column("slo", JSON, nullable=False),
    Column("measured_at", At, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("entry_id", _SERIAL, primary_key=True, autoincrement=True),
    Column("at", At, nullable=False, index=True),
    Column("actor", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("before", JSON(none_as_null=True)),
    Column("after", JSON(none_as_null=True)),
    Column("request_id", Text, nullable=False),
    sqlite_autoincrement=True,  # or else SQLite gives the number of a removed entry again
)

jobs = Table(
    "jobs",
    metadata,
    Column("job_id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("playbook", Text, nullable=False),
    Column("targets", JSON, nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("created_at", At, nullable=False, index=True),
    Column("state", Text, nullable=False, index=True),
    Column("variables", JSON, nullable=False),
    Column("is_check", Boolean, nullable=False),
    Column("parent", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("started_at", At),
    Column("beat_at", At),
    Column("finished_at", At),
    Column("return_code", Integer),
    Column("summary", JSON, nullable=False),
    Column("is_cancel_requested", Boolean, nullable=False),
)

job_events = Table(
    "job_events",
    metadata,
    Column("job_id", Text, primary_key=True),
    Column("counter", BigInteger, primary_key=True, autoincrement=False),
    Column("at", At, nullable=False, index=True),
    Column("event", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("play", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("stdout", Text, nullable=False),
    Column("duration_ms", BigInteger),
)

node_claims = Table(
    "node_claims",
    metadata,
    Column("node_id", Text, primary_key=True),
    Column("job_id", Text, nullable=False, index=True),
)
"""The job that works on a node; one at a time."""

orgs = Table(
    "orgs",
    metadata,
    Column("org_id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created_at", At, nullable=False),
)

teams = Table(
    "teams",
    metadata,
    Column("team_id", Text, primary_key=True),
    Column("org_id", Text, ForeignKey("orgs.org_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", At, nullable=False),
    UniqueConstraint("org_id", "name"),
)

projects = Table(
    "projects",
    metadata,
    Column("project_id", Text, primary_key=True),
    Column("team_id", Text, ForeignKey("teams.team_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", At, nullable=False),
    UniqueConstraint("team_id", "name"),
)

users = Table(
    "users",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("email", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", At, nullable=False),
    Column("password_hash", Text, nullable=False),
    Column("project_id", Text, ForeignKey("projects.project_id")),
    Column("is_admin", Boolean, nullable=False),
    Column("last_login_at", At),
    Column("approved_by", Text, nullable=False),
    Column("approved_at", At),
    Column("issuer", Text),
    Column("subject", Text),
    UniqueConstraint("issuer", "subject"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("token_hash", Text, primary_key=True),
    Column("user_id", Text, ForeignKey("users.user_id"), nullable=False, index=True),
    Column("csrf_hash", Text, nullable=False),
    Column("created_at", At, nullable=False),
    Column("expires_at", At, nullable=False, index=True),
    Column("last_seen_at", At, nullable=False),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("key_hash", Text, nullable=False, unique=True),
    Column("previous_hash", Text, unique=True),
    Column("previous_until", At),
    Column("prefix", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("project_id", Text, ForeignKey("projects.project_id"), nullable=False, index=True),
    Column("user_id", Text, ForeignKey("users.user_id"), index=True),
    Column("band", Text),
    Column("created_at", At, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at", At),
    Column("revoked_at", At),
    Column("last_used_at", At),
)
"""Keys are kept as their SHA-256; a revoked one stays, since usage tells of it.

A rotated one is the same key with another secret, so that its limits and what it used go on; the
secret before is good until ``previous_until``.
"""

key_claims = Table(
    "key_claims",
    metadata,
    Column("token_hash", Text, primary_key=True),
    Column("key_id", Text, ForeignKey("api_keys.key_id"), nullable=False, index=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("created_at", At, nullable=False),
    Column("expires_at", At, nullable=False),
    Column("claimed_at", At),
)

limits = Table(
    "limits",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("scope_id", Text, primary_key=True),
    Column("rpm", BigInteger),
    Column("tpm", BigInteger),
    Column("budget", BigInteger),
    Column("period", Text, nullable=False),
    Column("concurrency", BigInteger),
    Column("models", JSON(none_as_null=True)),
)

usage = Table(
    "usage",
    metadata,
    Column("entry_id", Text, primary_key=True),
    Column("at", At, primary_key=True, autoincrement=False, index=True),
    Column("request_id", Text, nullable=False),
    Column("key_id", Text, nullable=False),
    Column("user_id", Text),
    Column("project_id", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("served_model", Text, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger),
    Column("cost_micros", BigInteger, nullable=False),
    Column("prompt_per_1k", BigInteger, nullable=False),
    Column("completion_per_1k", BigInteger, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("is_estimated", Boolean, nullable=False),
    Column("status", Integer, nullable=False),
    Column("ttft_ms", Float(53)),
    Column("latency_ms", Float(53)),
    postgresql_partition_by="RANGE (at)",
)
"""One row a request that was sent to an engine. PostgreSQL parts them by day, so that a day goes at
once; therefore the day is part of what is unique. Keys may be gone that rows tell of."""


def _sums(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("at", At, primary_key=True, autoincrement=False),
        Column("key_id", Text, primary_key=True),
        Column("user_id", Text, primary_key=True),
        Column("project_id", Text, primary_key=True),
        Column("model", Text, primary_key=True),
        Column("requests", BigInteger, nullable=False),
        Column("failed", BigInteger, nullable=False),
        Column("aborted", BigInteger, nullable=False),
        Column("lost", BigInteger, nullable=False),
        Column("estimated", BigInteger, nullable=False),
        Column("prompt_tokens", BigInteger, nullable=False),
        Column("completion_tokens", BigInteger, nullable=False),
        Column("cached_tokens", BigInteger, nullable=False),
        Column("cost_micros", BigInteger, nullable=False),
        Column("latency_ms", BigInteger, nullable=False),
        Column("timed", BigInteger, nullable=False),
        Index(f"ix_{name}_key_id", "key_id", "at"),
    )


usage_hours = _sums("usage_hours")
usage_days = _sums("usage_days")
"""Sums of ``usage`` by the model that served, written with the rows; ``timed``: of how many
requests ``latency_ms`` is the sum."""
