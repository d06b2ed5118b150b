"""Runs the programs of the operating system that an installation needs, and finds them on PATH.

The rest of this room starts processes through it alone, so each has a bound and plain words.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from llmgw.config import sources
from llmgw.errors import DeadlinePassed, EngineFailed
from llmgw.kit import quick_runs
from llmgw.kit.clock import Clock, SystemClock

_MOST_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended: its code (negative: the signal) and all that it wrote, errors last."""

    code: int
    output: str

    @property
    def is_ok(self) -> bool:
        """It says that it worked."""
        return self.code == 0

    @property
    def last_line(self) -> str:
        """The last thing that it wrote, which is mostly the reason."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return lines[-1][:300] if lines else f"ended with {self.code} and wrote nothing"


@dataclass(frozen=True, slots=True)
class Tools:
    """Programs found on one ``PATH`` and run in one environment, in the language C."""

    environ: Mapping[str, str] = field(repr=False)
    clock: Clock = field(default_factory=SystemClock)
    sleep: Callable[[float], None] = time.sleep

    def find(self, name: str) -> str | None:
        """The program's path, or nothing."""
        return shutil.which(name, path=self.environ.get("PATH"))

    def run(
        self, words: Sequence[str], *, timeout_s: float, more: Mapping[str, str] | None = None
    ) -> Finished:
        """Run to the end; ``DeadlinePassed`` after ``timeout_s``, ``EngineFailed`` without it.

        ``more`` are further variables of its environment. It may go on when the agent ends: a
        package tool that is killed leaves the system's packages broken.
        """
        kept = sources.without_settings(self.environ)
        try:
            answer = quick_runs.run(
                words,
                timeout_s=timeout_s,
                most_bytes=_MOST_BYTES,
                environ={**kept, "LC_ALL": "C", **(more or {})},
                may_outlive=True,
            )
        except TimeoutError as error:
            raise DeadlinePassed(f"{words[0]} did not end within {timeout_s:g} s") from error
        except OSError as error:
            raise EngineFailed(f"{words[0]} cannot be started: {error.strerror}") from error
        if answer.code is None:
            raise EngineFailed(f"{words[0]} printed more than {_MOST_BYTES >> 20} MiB")
        return Finished(code=answer.code, output=answer.output + answer.errors)
