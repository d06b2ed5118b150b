"""``llmgw ctl wait``: wait until a model serves, with its progress."""

from __future__ import annotations

import time

import click

from llmgw.cli import completing, figures, models_cmd
from llmgw.cli.asking import Asking, asks
from llmgw.cli.client import AdminClient, Answer
from llmgw.cli.load_progress import LoadProgress
from llmgw.cli.params import DURATION
from llmgw.domain.views import ModelStatus, ModelView
from llmgw.errors import Conflict, DeadlinePassed, Unreachable

_LOOK_EVERY_S = 0.5


@click.command()
@click.argument("model", shell_complete=completing.models)
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
    """Wait until MODEL has as many ready replicas as are wanted.

    \b
    llmgw ctl wait llama --timeout 20m
    """  # noqa: D301 - click reads \b
    began = time.monotonic()
    answer = asking.client.model(model)
    with LoadProgress.shown() as progress:
        while not _serves(answer.value):
            if time.monotonic() - began >= timeout_s:
                raise DeadlinePassed(_too_late(answer.value, timeout_s=timeout_s))
            answer = _look(asking.client, answer, progress)
            time.sleep(_LOOK_EVERY_S)
    seen = answer.value
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


def _look(
    client: AdminClient, last: Answer[ModelView], progress: LoadProgress
) -> Answer[ModelView]:
    """The model as it is now, its progress drawn; as it was while a control plane restarts."""
    try:
        answer = client.model(last.value.name)
        progress.show(client.replicas(model=answer.value.name).value)
    except Unreachable as error:
        progress.note(error.message)
        return last
    if answer.value.reason:
        progress.note(f"{answer.value.name}: {answer.value.reason}")
    return answer


def _too_late(model: ModelView, *, timeout_s: float) -> str:
    head = (
        f"{model.name} is {model.status} with {model.ready} of {model.want} ready "
        f"after {figures.age(timeout_s)}"
    )
    reasons = [model.reason] if model.reason else []
    if model.last_failure is not None:
        reasons.append(models_cmd.failure_line(model.last_failure))
    more = f"'llmgw ctl explain-placement {model.name}' says what every node is to it"
    return "; ".join([head, *reasons, more])
