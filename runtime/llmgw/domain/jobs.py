"""A job: a playbook that runs for some nodes, its states, and what it tells meanwhile."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class JobState(enum.StrEnum):
    """Where a job stands; those after ``RUNNING`` are final."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCESSFUL = "successful"
    FAILED = "failed"
    CANCELED = "canceled"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"
    """The process that ran it is gone."""

    @property
    def is_final(self) -> bool:
        """Whether nothing more happens to it; another job may do the work again."""
        return self not in {JobState.QUEUED, JobState.RUNNING}


@dataclass(frozen=True, slots=True)
class Job:
    """One run of one playbook."""

    job_id: str
    kind: str
    playbook: str
    targets: tuple[str, ...]
    requested_by: str
    created_at: float
    state: JobState = JobState.QUEUED
    variables: Mapping[str, object] = field(default_factory=dict)
    """What the playbook is given; never a secret."""
    is_check: bool = False
    """Only says what would be changed."""
    parent: str = ""
    """The rollout that it belongs to; empty for a job of its own."""
    owner: str = ""
    """The process that runs it."""
    started_at: float | None = None
    beat_at: float | None = None
    """When its owner last said that it lives."""
    finished_at: float | None = None
    return_code: int | None = None
    summary: Mapping[str, object] = field(default_factory=dict)
    """Per host, what was done."""
    is_cancel_requested: bool = False


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One line of what a job tells."""

    job_id: str
    counter: int
    """Rises within a job; an event that arrives twice has the same one."""
    at: float
    event: str
    host: str = ""
    play: str = ""
    task: str = ""
    status: str = ""
    stdout: str = ""
    duration_s: float | None = None
