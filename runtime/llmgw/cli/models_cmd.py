"""``llmgw ctl models``: the catalog, and how much of each model runs."""

from __future__ import annotations

from collections.abc import Sequence

import click

from llmgw.cli import figures, load_progress
from llmgw.cli.asking import Asking, asks
from llmgw.cli.screens import Column, Row
from llmgw.domain import failure_texts
from llmgw.domain.views import FailureView, ModelView, ReplicaView

_COLUMNS = (
    Column("NAME", is_whole=True),
    Column("STATUS", is_state=True),
    Column("READY"),
    Column("PROFILES"),
    Column("ORIGIN"),
    Column("DESCRIPTION"),
)


@click.command()
@click.option("--status", help="Only models of this status.")
@asks
def models(asking: Asking, *, status: str | None) -> None:
    """List the catalog. READY counts replicas that serve and those that are wanted.

    \b
    Example:
      llmgw ctl models --status unplaced
      llmgw ctl model list
    """  # noqa: D301 - click reads \b
    answer = asking.client.models(status=status)
    if asking.is_json:
        asking.screen.document(answer.document)
        return
    replicas = asking.client.replicas().value
    asking.screen.table(_COLUMNS, [_row(model, replicas) for model in answer.value])
    if not answer.value:
        asking.screen.line("no models" if status else "the catalog is empty")
    for name, why in answer.document.get("skipped", {}).items():
        asking.screen.line(f"the stored model {name} is left out of the catalog: {why}")


def _row(model: ModelView, replicas: Sequence[ReplicaView]) -> Row:
    return Row(
        cells=(
            model.name,
            model.status,
            f"{model.ready} of {model.want}",
            figures.listed(model.profiles),
            f"{model.origin}, simulated" if model.is_simulated else model.origin,
            model.description,
        ),
        under=remarks(model, [r for r in replicas if r.model == model.name]),
    )


def remarks(model: ModelView, replicas: Sequence[ReplicaView]) -> list[str]:
    """What else there is to say of a model, a sentence each."""
    said = [stage.line for replica in replicas for stage in load_progress.stages(replica)]
    if model.ready_in_s is not None:
        said.append(f"it will probably serve in {figures.age(model.ready_in_s)}")
    if model.roll:
        said.append(model.roll)
    elif model.stale:
        said.append(
            f"{model.stale} replica(s) of an older profile; "
            f"'llmgw ctl model roll {model.name}' replaces them"
        )
    if model.reason:
        said.append(model.reason)
    is_short = model.ready < model.want or model.backoff_left_s is not None
    if model.last_failure is not None and is_short:
        said.append(failure_line(model.last_failure))
    return said


def failure_line(failure: FailureView) -> str:
    """The last failure in one sentence, with the engine's own word."""
    told = failure_texts.failure(
        failure.error, exit_code=failure.exit_code, last_output=failure.last_output
    )
    where = f" on {failure.node_id}" if failure.node_id else ""
    ago = figures.age(failure.ago_s)
    return f"{failure.replica_id} failed {ago} ago{where}: {told}"
