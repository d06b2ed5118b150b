"""``llmgw ctl wait``: wait until a model serves, with its progress."""

from __future__ import annotations

import time

import click

from llmgw.cli import figures, models_cmd
from llmgw.cli.asking import Asking, asks
from llmgw.cli.client import AdminClient
from llmgw.cli.load_progress import LoadProgress
from llmgw.cli.params import DURATION
from llmgw.domain.views import ModelStatus, ModelView
from llmgw.errors import Conflict, DeadlinePassed

_LOOK_EVERY_S = 0.5


@click.command()
@click.argument("model")
@click.option(
    "--timeout",
    "timeout_s",
    type=DURATION,
    default="10m",
    show_default=True,
    help="Longest wait; exit code 6 when it passes.",
)
@asks
def wait(asking: Asking, *, model: str, timeout_s: float) -> None:
    """Wait until MODEL has as many ready replicas as are wanted."""
    began = time.monotonic()
    with LoadProgress() as progress:
        while True:
            answer = asking.client.model(model)
            seen = answer.value
            if _serves(seen):
                break
            _look(asking.client, seen, progress)
            if time.monotonic() - began >= timeout_s:
                raise DeadlinePassed(_too_late(seen, timeout_s=timeout_s))
            time.sleep(_LOOK_EVERY_S)
    if asking.is_json:
        asking.screen.document(answer.document)
    else:
        asking.screen.line(
            f"{seen.name} is ready: {seen.ready} of {seen.want} after "
            f"{figures.age(time.monotonic() - began)}"
        )


def _serves(model: ModelView) -> bool:
    """Whether the wait is over; refuses to wait for what nothing will start."""
    if model.ready >= max(1, model.want):
        return True
    if model.want or model.starting:
        return False
    if model.status is ModelStatus.ON_DEMAND:
        raise Conflict(
            f"{model.name} is loaded on demand and nobody asks for it: send it a request"
        )
    raise Conflict(f"{model.name} is off, so nothing will start it: give it 'scaling: {{min: 1}}'")


def _look(client: AdminClient, model: ModelView, progress: LoadProgress) -> None:
    progress.show(client.replicas(model=model.name).value)
    if model.reason:
        progress.note(f"{model.name}: {model.reason}")


def _too_late(model: ModelView, *, timeout_s: float) -> str:
    head = (
        f"{model.name} is {model.status} with {model.ready} of {model.want} ready "
        f"after {figures.age(timeout_s)}"
    )
    reasons = [model.reason] if model.reason else []
    if model.last_failure is not None:
        reasons.append(models_cmd.failure_line(model.last_failure))
    return "; ".join([head, *reasons])
