"""``llmgw ctl bench``: how many requests at once a running replica carries, kept if wanted."""

from __future__ import annotations

import click

from llmgw.bench.driver import Target
from llmgw.bench.levels import LevelFigures
from llmgw.cli import bench_options, bench_showing, completing
from llmgw.cli.asking import Asking, asks
from llmgw.cli.bench_options import Measuring
from llmgw.cli.failures import ExitCode
from llmgw.domain.replicas import ReplicaState
from llmgw.domain.views import ReplicaView
from llmgw.errors import Conflict, LlmgwError, Unknown


@click.command()
@click.argument("target", shell_complete=completing.replicas)
@click.option(
    "--save", "is_kept", is_flag=True, help="Keep the result for the replica's model and profile."
)
@bench_options.measuring
@asks
@click.pass_context
def bench(
    ctx: click.Context, asking: Asking, *, target: str, is_kept: bool, measuring: Measuring
) -> None:
    """Raise the load on the replica TARGET, by its id or its endpoint, until promises break.

    The engine is asked directly, beside the gateway, so this machine must reach it. Ends with 7
    when even the first level breaks the promises. A result that cannot be kept is told and is no
    failure.

    \b
    llmgw ctl bench llama-9f31c2aa --save
    llmgw ctl bench http://10.0.0.11:20000 --shared-prefix 128
    """  # noqa: D301 - click reads \b
    replica = _replica(asking, target)
    url = str(replica.url)
    outcome = measuring.measure(
        Target(url=f"{url}/v1", model=replica.model, api_key="", metrics_url=f"{url}/metrics")
    )
    is_saved = False
    if is_kept and outcome.best is not None:
        is_saved = _kept(asking, replica, outcome.best, measuring)
    if asking.is_json:
        asking.screen.document({**bench_showing.document(outcome), "is_saved": is_saved})
    else:
        bench_showing.summary(asking.screen, outcome)
        if is_saved:
            asking.screen.line(f"kept for {replica.model}, profile {replica.profile}")
    if outcome.best is None:
        ctx.exit(ExitCode.CHECK_SAID_NO)


def _replica(asking: Asking, target: str) -> ReplicaView:
    """The replica that is meant; refused before anything is sent where there is none."""
    wanted = target.rstrip("/").removesuffix("/v1")
    for replica in asking.client.replicas().value:
        if wanted not in {replica.replica_id, replica.url}:
            continue
        if replica.state is not ReplicaState.READY or not replica.url:
            raise Conflict(
                f"{replica.replica_id} is {replica.state} and cannot be measured; "
                f"'llmgw ctl wait {replica.model}' waits until it serves"
            )
        return replica
    raise Unknown(
        f"{target!r} is no replica: 'llmgw ctl replicas' lists them with their endpoints; "
        "'llmgw bench URL --model NAME' measures any other endpoint"
    )


def _kept(asking: Asking, replica: ReplicaView, best: LevelFigures, measuring: Measuring) -> bool:
    slo = measuring.slo
    told = {
        "replica_id": replica.replica_id,
        "result": {
            "concurrency": best.concurrency,
            "tokens_per_s": best.tokens_per_s,
            "requests_per_s": best.requests_per_s,
            "waiting": best.load.waiting,
            "kv": best.load.kv,
            "shared_prefix_tokens": measuring.shared_tokens,
        },
        "slo": {
            "ttft_p95_s": slo.ttft_p95_s,
            "tpot_p95_s": slo.tpot_p95_s,
            "error_share": slo.error_share,
        },
    }
    try:
        asking.client.send("PUT", "capacity", body=told)
    except LlmgwError as error:
        click.echo(f"llmgw: the result is not kept: {error.message}", err=True)
        return False
    return True
