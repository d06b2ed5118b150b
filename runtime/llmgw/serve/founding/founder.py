"""Founds a control plane: step after step, each of which looks for its own result first.

A run that was cut off anywhere is finished by the next one, and a whole installation is left alone.
Nothing that a person or another authority made is ever overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from llmgw.errors import Invalid, LlmgwError, SettingsInvalid
from llmgw.rpc import certificates
from llmgw.serve.founding import credentials, groundwork, obstacles, unit_steps
from llmgw.serve.founding.ground import Ground, Step, StepState

STEPS: Sequence[tuple[str, Callable[[Ground], Step]]] = (
    ("user", groundwork.user),
    ("folders", groundwork.folders),
    ("authority", credentials.root),
    ("certificate", credentials.certificate),
    ("settings", unit_steps.settings),
    ("program", groundwork.program),
    ("unit", unit_steps.unit),
    ("service", unit_steps.running),
    ("answer", unit_steps.answer),
)
"""What is done, in this order; a later step rests on the earlier ones."""


@dataclass(frozen=True, slots=True)
class Founded:
    """The steps that were taken, and what a person needs next."""

    steps: tuple[Step, ...]
    hosts: tuple[str, ...]
    ca_sha256: str = ""

    @property
    def is_changed(self) -> bool:
        """Something was done, or would be."""
        return any(step.state in {StepState.DONE, StepState.WOULD} for step in self.steps)

    @property
    def failure(self) -> Step | None:
        """The step that failed; none follows it."""
        return next((step for step in self.steps if step.state is StepState.FAILED), None)


def found(
    ground: Ground, *, steps: Sequence[tuple[str, Callable[[Ground], Step]]] = STEPS
) -> Founded:
    """Take every step until one fails; ``Invalid`` with everything that is in the way."""
    if in_the_way := [f"  {obstacle}" for obstacle in obstacles.find(ground)]:
        raise Invalid("\n".join(["nothing was changed, for this is in the way:", *in_the_way]))
    taken: list[Step] = []
    for name, step in steps:
        taken.append(replace(_guarded(step, ground), name=name))
        if taken[-1].state is StepState.FAILED:
            break
    ca = ground.places.ca
    fingerprint = certificates.inspect(ca).fingerprint if ca.exists() else ""
    return Founded(tuple(taken), hosts=ground.hosts, ca_sha256=fingerprint)


def _guarded(step: Callable[[Ground], Step], ground: Ground) -> Step:
    try:
        return step(ground)
    except LlmgwError as error:
        problems = error.problems if isinstance(error, SettingsInvalid) else ()
        text = "\n".join([error.message, *(f"  {problem}" for problem in problems)])
    except OSError as error:
        text = str(error)
    return Step(StepState.FAILED, text)
