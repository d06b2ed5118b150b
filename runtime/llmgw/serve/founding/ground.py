"""What the steps of founding share: the machine, the places, whether anything may be done."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from llmgw.config import loading
from llmgw.config.settings import ServerSettings
from llmgw.kit.clock import Clock
from llmgw.serve.founding.machine import Machine
from llmgw.serve.founding.places import UNIT, Places


class StepState(enum.StrEnum):
    """What became of a step."""

    OK = "ok"
    DONE = "done"
    WOULD = "would"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one step, in words; ``name`` is filled in by who runs it."""

    state: StepState
    detail: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Ground:
    """One founding."""

    machine: Machine
    clock: Clock
    places: Places
    program: Path
    """The ``llmgw`` that is to serve."""
    hosts: tuple[str, ...]
    """By which the control plane may be dialled, its name first."""
    is_trial: bool = False
    needs_store: bool = False
    """An administrator is to be made, who is kept in the store."""

    def do(self, work: Callable[[], object], detail: str) -> Step:
        """Do it, unless this is a trial."""
        if self.is_trial:
            return Step(StepState.WOULD, detail)
        work()
        return Step(StepState.DONE, detail)

    def is_running(self) -> bool:
        """Whether the service runs."""
        return self.machine.systemctl("is-active", "--quiet", UNIT)

    def settings(self) -> ServerSettings:
        """The settings as they lie there; ``SettingsInvalid`` with every mistake."""
        return loading.load_server(self.places.settings, environ={})


def ok(detail: str = "", *, name: str = "") -> Step:
    """What it is there for was there already."""
    return Step(StepState.OK, detail, name=name)
