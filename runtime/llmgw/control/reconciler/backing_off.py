"""How long a model waits after a failure of one of its replicas; pure.

The wait lies on the model, so it survives the replica. A replica that served for ten minutes has
proven its model: its failure is the first of a row and is followed by a start at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmgw.control.reconciler import draws
from llmgw.domain.catalog import Model
from llmgw.domain.replicas import Replica, Shard, ShardState
from llmgw.domain.snapshots import Bounds, Failures, Snapshot
from llmgw.kit.backoff import Backoff

_SPREAD = 0.1


def after_failure(replica: Replica, *, model: Model, reason: str, snapshot: Snapshot) -> Failures:
    """What the model has against it after this replica failed."""
    now, bounds = snapshot.now, snapshot.bounds
    before = snapshot.cluster.failures.get(model.name)
    if before is not None and before.definition != model:
        before = None
    is_proven = replica.ready_at is not None and now - replica.ready_at >= bounds.steady_after_s
    row = None if is_proven else before
    count = 0 if is_proven else 1 + (row.count if row is not None else 0)
    by_profile = dict(row.by_profile) if row is not None else {}
    if not is_proven:
        by_profile[replica.profile] = by_profile.get(replica.profile, 0) + 1
    blamed = _blamed(replica)
    last = blamed[0]
    return Failures(
        definition=model,
        count=count,
        until_at=now + _wait_s(count, bounds=bounds, draw=_draw(replica, snapshot)),
        failed_at=now,
        replica_id=replica.replica_id,
        profile=replica.profile,
        error=last.error or reason,
        node_id=last.node_id,
        exit_code=last.exit_code,
        last_output=last.last_output,
        by_profile=by_profile,
        profile_fp=replica.profile_fp,
        by_node=_by_node(before, blamed, now=now, bounds=bounds),
    )


def is_void(failures: Failures, *, model: Model | None, proven_since_at: float | None) -> bool:
    """Whether the count is to be forgotten: the entry was edited, or serves again for long."""
    is_proven = proven_since_at is not None and proven_since_at > failures.failed_at
    return failures.definition != model or (is_proven and failures.count > 0)


def _draw(replica: Replica, snapshot: Snapshot) -> float:
    return draws.fraction(snapshot.seed, "backoff", replica.replica_id)


def _wait_s(count: int, *, bounds: Bounds, draw: float) -> float:
    if count == 0:
        return 0.0
    doubling = Backoff(base_s=bounds.base_backoff_s, max_s=bounds.max_backoff_s, jitter=0.0)
    wait_s = doubling.delay_s(attempt=count - 1, draw=0.0)
    return min(bounds.max_backoff_s, wait_s * (1.0 - _SPREAD + 2 * _SPREAD * draw))


def _blamed(replica: Replica) -> Sequence[Shard]:
    """The shards that ended by themselves; of a replica that only came too late, all of them."""
    ended = [s for s in replica.shards if s.state is ShardState.FAILED and not s.is_gone]
    return ended or list(replica.shards)


def _by_node(
    before: Failures | None, blamed: Sequence[Shard], *, now: float, bounds: Bounds
) -> dict[str, float]:
    earlier = before.by_node if before is not None else {}
    kept = {node: at for node, at in earlier.items() if at > now - bounds.avoid_s}
    return {**kept, **{shard.node_id: now for shard in blamed}}
