"""The last step of founding: the first administrator, where one is asked for.

Root goes on as the owner of the store for it, so nothing that needs root may follow.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field

from llmgw.domain.actors import Actor
from llmgw.errors import LlmgwError
from llmgw.serve import loops
from llmgw.serve.founding.ground import Ground, Step, StepState, ok

NAME = "admin"


@dataclass(frozen=True, slots=True)
class FirstAdmin:
    """Who it is, and its password where it was made just now: shown once."""

    email: str
    password: str | None = field(default=None, repr=False)


def see_to(ground: Ground, *, email: str, actor: Actor) -> tuple[Step, FirstAdmin | None]:
    """The step, and the administrator where nothing failed and this is no trial."""
    if ground.is_trial:
        return Step(StepState.WOULD, f"see to the administrator {email}", name=NAME), None
    # Imported only here: what opens the store is larger than a server without one.
    module = importlib.import_module("llmgw.serve.first_admin")
    try:
        making = module.make(ground.settings(), environ={}, email=email, actor=actor)
        made: FirstAdmin = loops.run(making)
    except LlmgwError as error:
        return Step(StepState.FAILED, error.message, name=NAME), None
    if made.password is None:
        return ok(f"{made.email} is there, and stays as it is", name=NAME), made
    return Step(StepState.DONE, made.email, name=NAME), made
