"""What agents see of the work of shards, kept from beat to beat, for the gateways.

``records`` feeds it.  A replica works when any of its ranks does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from llmgw.domain.replicas import Replica
from llmgw.domain.work import ShardWork, has_worked


@dataclass(frozen=True, slots=True)
class WorkSeen:
    """When a replica was last seen at work, absent where never, and when that was looked at."""

    worked_at: float | None
    looked_at: float


@dataclass(frozen=True, slots=True)
class _Look:
    work: ShardWork
    at: float


class WorkBook:
    """The last look at each shard."""

    def __init__(self) -> None:
        self._looks: dict[str, _Look] = {}
        self._seen: dict[str, WorkSeen] = {}

    def note(self, work: Iterable[ShardWork], *, now: float) -> None:
        """Take what one beat says of its node's shards."""
        for one in work:
            before = self._looks.get(one.shard_id)
            self._looks[one.shard_id] = _Look(one, now)
            if before is None and one.gpu_utilization_percent is None:
                continue  # one figure of a processor's time tells nothing yet
            if one.cpu_time_s is None and one.gpu_utilization_percent is None:
                continue
            last = self._seen.get(one.shard_id)
            elapsed_s = now - before.at if before is not None else 0.0
            is_work = has_worked(before.work if before else None, one, elapsed_s=elapsed_s)
            worked_at = now if is_work else last.worked_at if last is not None else None
            self._seen[one.shard_id] = WorkSeen(worked_at, now)

    def of(self, replica: Replica) -> WorkSeen | None:
        """Of all its ranks together; nothing where no agent could look at any."""
        seen = [w for s in replica.shards if (w := self._seen.get(s.shard_id)) is not None]
        if not seen:
            return None
        worked = [one.worked_at for one in seen if one.worked_at is not None]
        return WorkSeen(max(worked, default=None), max(one.looked_at for one in seen))

    def keep_only(self, replicas: Mapping[str, Replica]) -> None:
        """Forget the shards of replicas that are gone."""
        held = {shard.shard_id for replica in replicas.values() for shard in replica.shards}
        for shard_id in self._looks.keys() - held:
            del self._looks[shard_id]
            self._seen.pop(shard_id, None)
