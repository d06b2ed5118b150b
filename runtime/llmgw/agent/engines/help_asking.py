"""Asks an engine's programs for their options: runs each with its help flag, and nothing longer.

It runs only because somebody asked for the check; whatever a program starts instead of answering is
ended with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmgw.agent.engines import option_check
from llmgw.agent.engines.contract import Checkable, HelpQuestion
from llmgw.config import sources
from llmgw.domain.engine_checks import EngineCheck, ProgramCheck
from llmgw.kit import quick_runs

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
        answer = quick_runs.run(
            question.words,
            environ={**kept, **question.more_env},
            timeout_s=timeout_s,
            most_bytes=_MOST_BYTES,
        )
    except TimeoutError:
        failure = f"it did not answer within {timeout_s:g} s"
    except OSError as error:
        failure = f"{question.words[0]} cannot be started: {error.strerror}"
    else:
        return option_check.compare(driver, question, f"{answer.output}\n{answer.errors}")
    return ProgramCheck(question.command, question.words, failure=failure)
