"""What an engine does beside its answers, and whether that is work; pure.

Agents measure it from beat to beat, the control plane judges it for the gateway: an engine may
answer nothing and move no counter for a minute, and yet read a long prompt all the time.
"""

from __future__ import annotations

from dataclasses import dataclass

LEAST_CORE_SHARE = 0.1
"""Less than this share of one core is what an engine uses while it waits."""

LEAST_WANTED_SHARE = 0.5
"""An engine at work wants a core all the time, however little of it a starved machine gives."""

LEAST_GPU_PERCENT = 5
"""A card that nobody uses shows less."""


@dataclass(frozen=True, slots=True)
class ShardWork:
    """One look at a shard: what its process group has used so far, and its busiest card.

    ``cpu_wait_s`` is how long its threads were ready to run and got no core.
    """

    shard_id: str
    cpu_time_s: float | None = None
    gpu_utilization_percent: int | None = None
    cpu_wait_s: float | None = None


def has_worked(before: ShardWork | None, after: ShardWork, *, elapsed_s: float) -> bool:
    """Whether the shard worked between two looks; a first look tells only of its cards."""
    if (after.gpu_utilization_percent or 0) >= LEAST_GPU_PERCENT:
        return True
    if before is None or before.cpu_time_s is None or after.cpu_time_s is None:
        return False
    used_s = after.cpu_time_s - before.cpu_time_s
    # Less than before: a process of the group has ended, which is a sign of life too.
    if used_s < 0.0 or used_s >= LEAST_CORE_SHARE * elapsed_s:
        return True
    if before.cpu_wait_s is None or after.cpu_wait_s is None:
        return False
    wanted_s = used_s + after.cpu_wait_s - before.cpu_wait_s
    return wanted_s >= LEAST_WANTED_SHARE * elapsed_s
