"""``llmgw ctl replicas``: what runs, where, since when, and how far a start is."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import click

from llmgw.cli import completing, figures, load_progress, watching
from llmgw.cli.asking import Asking, asks
from llmgw.cli.screens import Column, Row, Screen
from llmgw.domain import failure_texts
from llmgw.domain.replicas import ReplicaState
from llmgw.domain.views import ReplicaView, ShardView

_COLUMNS = (
    Column("REPLICA", is_whole=True),
    Column("MODEL"),
    Column("PROFILE"),
    Column("STATE", is_state=True),
    Column("NODES"),
    Column("ENDPOINT", is_whole=True),
    Column("AGE"),
    Column("IDLE"),
    Column("REMARKS"),
)


@click.command()
@click.option("--model", shell_complete=completing.models, help="Only replicas of this model.")
@click.option(
    "--node", shell_complete=completing.nodes, help="Only replicas with a shard on this node."
)
@click.option(
    "--state",
    type=click.Choice([str(state) for state in ReplicaState]),
    help="Only replicas in this state.",
)
@watching.option
@asks
def replicas(asking: Asking, *, watch_s: float | None, **filters: str | None) -> None:
    """List what runs, with a line under it for every download, load and error.

    \b
    llmgw ctl replicas
    llmgw ctl replicas --model llama --watch
    """  # noqa: D301 - click reads \b
    ask = functools.partial(asking.client.replicas, **filters)
    watching.show(asking, ask=ask, draw=_show, watch_s=watch_s)


def _show(screen: Screen, found: Sequence[ReplicaView]) -> None:
    screen.table(_COLUMNS, [_row(replica) for replica in found])
    if not found:
        screen.line("no replicas")


def _row(replica: ReplicaView) -> Row:
    return Row(
        cells=(
            replica.replica_id,
            replica.model,
            replica.profile,
            replica.state,
            figures.listed([s.node_id for s in replica.shards]),
            replica.url,
            figures.age(replica.age_s),
            figures.age(replica.idle_s),
            ", ".join(_flags(replica)),
        ),
        under=[
            *(stage.line for stage in load_progress.stages(replica)),
            *(_error_line(s) for s in replica.shards if s.error),
        ],
    )


def _flags(replica: ReplicaView) -> list[str]:
    flags = ["stale profile"] if replica.is_stale_profile else []
    if replica.is_assembling:
        flags.append(f"has {len(replica.shards)} of {replica.want_shards} shards")
    if replica.ejected_s is not None:
        flags.append(f"left alone for {figures.age(replica.ejected_s)}: no progress")
    if replica.drain_reason:
        flags.append(replica.drain_reason)
    return flags


def _error_line(shard: ShardView) -> str:
    told = failure_texts.failure(
        shard.error, exit_code=shard.exit_code, last_output=shard.last_output
    )
    return f"{shard.shard_id} on {shard.node_id}: {told}"
