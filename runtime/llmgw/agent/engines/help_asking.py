"""Asks an engine's programs for their options: runs each with its help flag, and nothing longer.

It runs only because somebody asked for the check; whatever a program starts instead of answering is
ended with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from llmgw.agent.engines import option_check
from llmgw.agent.engines.contract import Checkable, HelpQuestion
from llmgw.config import sources
from llmgw.domain.engine_checks import EngineCheck, ProgramCheck

ANSWER_TIMEOUT_S = 180.0
"""vLLM and SGLang load torch before they say anything."""

_MOST_BYTES = 4 * 1024 * 1024


def check(
    driver: Checkable, *, environ: Mapping[str, str], timeout_s: float = ANSWER_TIMEOUT_S
) -> EngineCheck:
    """Ask each program of an engine and compare; blocks, at most ``timeout_s`` a program."""
    return EngineCheck(
        engine=driver.name,
        programs=tuple(
            _check(driver, question, environ=environ, timeout_s=timeout_s)
            for question in driver.help_questions()
        ),
    )


def _check(
    driver: Checkable, question: HelpQuestion, *, environ: Mapping[str, str], timeout_s: float
) -> ProgramCheck:
    kept = sources.without_settings(environ)
    try:
        text = _output(question, environ={**kept, **question.more_env}, timeout_s=timeout_s)
    except OSError as error:
        failure = f"{question.words[0]} cannot be started: {error.strerror}"
    except subprocess.TimeoutExpired:
        failure = f"it did not answer within {timeout_s:g} s"
    else:
        return option_check.compare(driver, question, text)
    return ProgramCheck(question.command, question.words, failure=failure)


def _output(question: HelpQuestion, *, environ: Mapping[str, str], timeout_s: float) -> str:
    with subprocess.Popen(
        list(question.words),
        cwd=Path("/"),
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return output[:_MOST_BYTES].decode(errors="replace")
