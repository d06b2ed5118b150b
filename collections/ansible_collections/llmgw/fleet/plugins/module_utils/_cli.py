# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs the llmgw that is installed on this machine and reads its answer.

Words go to it as they are, through no shell; its environment holds what is listed here and nothing
that a caller happened to have; it ends within a bound, with all that it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXECUTABLE = "/usr/local/bin/llmgw"
CHECK_SAID_NO = 7

MEANINGS = {
    1: "failed",
    2: "usage",
    3: "unreachable",
    4: "unknown",
    5: "refused",
    6: "timeout",
    CHECK_SAID_NO: "no",
    130: "interrupted",
}
"""What the exit codes of llmgw mean, in one word."""

_PASSED = (
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LC_ALL",
    "NO_PROXY",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "TZ",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_END_GRACE_S = 10
_MAX_TEXT = 4096


class CliFailed(Exception):
    """The command did not do what it was asked; the sentence is its own."""

    def __init__(self, message: str, *, meaning: str = "failed", rc: int | None = None) -> None:
        """Keep the sentence, one word for what happened, and the exit code if there is one."""
        super().__init__(message)
        self.message = message
        self.meaning = meaning
        self.rc = rc

    @property
    def is_missing(self) -> bool:
        """Whether there is no llmgw on this machine, as on one that was never set up."""
        return self.meaning == "missing"


@dataclass(frozen=True)
class Answer:
    """How a command ended that was allowed to end so: its document, and what it said meanwhile."""

    rc: int
    document: dict[str, Any]
    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cli:
    """One installed llmgw; ``environ`` is added to the few variables that it always gets."""

    executable: str = EXECUTABLE
    timeout_s: float = 60
    environ: tuple[tuple[str, str], ...] = ()

    def ask(
        self, words: Sequence[str], *, stdin: str = "", allowed: Collection[int] = (0,)
    ) -> Answer:
        """The JSON document that the command prints; ``CliFailed`` for any other end."""
        out, err, rc = self._run([self.executable, *words], stdin=stdin)
        if rc not in allowed or (rc and not out.strip()):
            raise CliFailed(self._sentence(err, words, rc), meaning=_meaning(rc), rc=rc)
        try:
            document = json.loads(out)
        except ValueError as error:
            raise CliFailed(
                f"{self.executable} {_shown(words)} printed no JSON: is its version the one of "
                f"this collection? It printed {_cut(out)!r}; {self._sentence(err, words, rc)}",
                rc=rc,
            ) from error
        if not isinstance(document, dict):
            raise CliFailed(f"{self.executable} {_shown(words)} printed no JSON object", rc=rc)
        return Answer(rc, document, tuple(err.splitlines()))

    def _run(self, words: list[str], *, stdin: str) -> tuple[str, str, int]:
        # run_command hands on every variable and leaves behind what the command had started.
        try:
            process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment(),
                start_new_session=True,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except FileNotFoundError as error:
            hint = ": the role llmgw.fleet.runtime puts it there" if self._is_llmgw else ""
            raise CliFailed(
                f"{self.executable} is not on this machine{hint}", meaning="missing"
            ) from error
        except OSError as error:
            raise CliFailed(f"{self.executable} cannot be started: {error.strerror}") from error
        try:
            out, err = process.communicate(stdin, timeout=self.timeout_s)
        except subprocess.TimeoutExpired as error:
            _end(process)
            raise CliFailed(
                f"{self.executable} {_shown(words[1:])} did not end within {self.timeout_s:g} s",
                meaning="timeout",
            ) from error
        return out, err, process.returncode

    def _sentence(self, err: str, words: Sequence[str], rc: int) -> str:
        text = "\n".join(line.strip() for line in err.splitlines() if line.strip())
        said = _cut(text.replace("llmgw: ", "", 1) if text.startswith("llmgw: ") else text)
        return said or f"{self.executable} {_shown(words)} ended with {rc} and said nothing"

    @property
    def _is_llmgw(self) -> bool:
        return Path(self.executable).name == "llmgw"

    def _environment(self) -> dict[str, str]:
        passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
        return {"PATH": os.environ.get("PATH") or _PATH, **passed, **dict(self.environ)}


def _end(process: subprocess.Popen[str]) -> None:
    """End the command and all that it started, politely first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_END_GRACE_S)
            return


def _shown(words: Sequence[str]) -> str:
    return " ".join(words)


def _meaning(rc: int) -> str:
    return "killed" if rc < 0 else MEANINGS.get(rc, "failed")


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"…{text[-_MAX_TEXT:]}"
