"""The table of what each end of an attempt means; pure.

``dispatch`` asks it whether to try elsewhere, what the client hears if this was the last attempt,
and what the breaker learns.  Each row names its number in the behaviour table of the data plane.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from llmgw.gateway.breaker import Outcome
from llmgw.gateway.replies import Code


class Ending(enum.Enum):
    """How an attempt can end without a status that speaks for itself."""

    DIAL_FAILED = "dial_failed"
    LOST_BEFORE_HEAD = "lost_before_head"
    HEAD_TIMEOUT = "head_timeout"
    LOST_BEFORE_BODY = "lost_before_body"
    BODY_TIMEOUT = "body_timeout"
    ENDPOINT_LEFT = "endpoint_left"
    NO_PROGRESS = "no_progress"
    NO_FILES = "no_files"


class Then(enum.Enum):
    """What follows."""

    COMMIT = "commit"
    RETRY = "retry"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows, what the breaker learns, and the code of our own answer.

    Without ``code`` the engine's status and body are passed on unchanged.
    """

    then: Then
    breaker: Outcome
    code: Code | None = None


ENDINGS: Final = {
    Ending.DIAL_FAILED: Verdict(Then.RETRY, Outcome.FAILED, Code.UPSTREAM_UNREACHABLE),  # 6
    Ending.LOST_BEFORE_HEAD: Verdict(Then.RETRY, Outcome.FAILED, Code.UPSTREAM_UNREACHABLE),  # 7
    Ending.HEAD_TIMEOUT: Verdict(Then.RETRY, Outcome.FAILED, Code.UPSTREAM_UNREACHABLE),  # 8
    Ending.LOST_BEFORE_BODY: Verdict(Then.RETRY, Outcome.FAILED, Code.UPSTREAM_UNREACHABLE),  # 9
    Ending.BODY_TIMEOUT: Verdict(Then.RETRY, Outcome.FAILED, Code.NO_FIRST_BYTE),  # 10
    Ending.ENDPOINT_LEFT: Verdict(Then.RETRY, Outcome.NEUTRAL, Code.UPSTREAM_UNREACHABLE),  # 19
    Ending.NO_PROGRESS: Verdict(Then.RETRY, Outcome.NEUTRAL, Code.UPSTREAM_UNREACHABLE),  # 19 too
    Ending.NO_FILES: Verdict(Then.ANSWER, Outcome.NEUTRAL, Code.TOO_MANY_CONNECTIONS),  # our fault
}

_COMMIT: Final = Verdict(Then.COMMIT, Outcome.OK)  # 11, 12
PASS_ON: Final = Verdict(Then.ANSWER, Outcome.NEUTRAL)  # 13, 17, and what an engine cannot do
_OUR_KEY_REFUSED: Final = Verdict(Then.ANSWER, Outcome.FAILED, Code.UPSTREAM_AUTH_FAILED)  # 17
_ELSEWHERE: Final = Verdict(Then.RETRY, Outcome.NEUTRAL)  # 14, 16
_FAILING: Final = Verdict(Then.RETRY, Outcome.FAILED)  # 18


def _judge(status: int) -> Verdict:
    if 200 <= status < 300:
        return _COMMIT
    if status in {401, 403, 407}:
        return _OUR_KEY_REFUSED
    if status in {404, 408, 429}:
        return _ELSEWHERE
    if status >= 500 and status not in {501, 505}:
        return _FAILING
    return PASS_ON


VERDICTS: Final = {status: _judge(status) for status in range(200, 600)}
"""What the status of an engine's head means on a route that runs a model; else ``PASS_ON``."""


def judge_loading(verdict: Verdict, *, status: int, body: bytes) -> Verdict:
    """A 503 whose first bytes say that the engine is loading is retried, and is no fault."""
    if status == 503 and b"loading" in body[:1024].lower():
        return _ELSEWHERE
    return verdict
