"""Judges, look after look, whether the models of ``llmgw up`` serve, or will not.

An engine gets a second try, because the first may have met a port that a stranger holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llmgw.domain import failure_texts
from llmgw.domain.views import FailureView, ModelStatus, ModelView
from llmgw.errors import EngineFailed

_TRIES = 2
_UNPLACED_S = 5.0
"""A node says what engines it has when it registers; soon after that a refusal is final."""
_SHOWN_LINES = 20


@dataclass(frozen=True, slots=True)
class Look:
    """What one look saw: who serves, and why others never will; over when nobody is left."""

    serving: tuple[str, ...]
    failures: tuple[str, ...]
    is_over: bool


class Awaiting:
    """What was seen so far; ``look`` is called until it is over or raises."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._failed: dict[str, set[str]] = {}
        self._unplaced_since: dict[str, float] = {}

    def look(
        self, models: Sequence[ModelView], *, serves: Callable[[str], bool], now: float
    ) -> Look:
        """Judge all models that are wanted.

        Raises ``EngineFailed`` with the end of the engine's output when all were given up.
        """
        wanted = [model for model in models if model.want]
        serving = tuple(model.name for model in wanted if serves(model.name))
        given_up = [m for m in wanted if m.name not in serving and self._is_given_up(m, now=now)]
        failures = tuple(map(_why, given_up))
        if wanted and len(given_up) == len(wanted):
            raise EngineFailed("\n".join(failures))
        is_over = len(serving) + len(given_up) == len(wanted)
        return Look(serving=serving, failures=failures, is_over=is_over)

    def _is_given_up(self, model: ModelView, *, now: float) -> bool:
        if model.status is not ModelStatus.UNPLACED:
            self._unplaced_since.pop(model.name, None)
        elif now - self._unplaced_since.setdefault(model.name, now) >= _UNPLACED_S:
            return True
        failed = self._failed.setdefault(model.name, set())
        if model.last_failure is not None:
            failed.add(model.last_failure.replica_id)
        return len(failed) >= _TRIES


def _why(model: ModelView) -> str:
    if model.last_failure is None:
        return f"{model.name} cannot run here: {model.reason}"
    return f"{model.name} does not start: {_failure(model.last_failure)}"


def _failure(failure: FailureView) -> str:
    told = failure_texts.failure(failure.error, exit_code=failure.exit_code, last_output=())
    lines = failure.last_output[-_SHOWN_LINES:]
    return "\n".join([told, *(f"  | {line}" for line in lines)])
