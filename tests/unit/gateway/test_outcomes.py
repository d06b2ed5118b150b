"""Each end of an attempt means what the table says."""

from __future__ import annotations

import pytest

from llmgw.gateway.breaker import Outcome
from llmgw.gateway.outcomes import ENDINGS, PASS_ON, VERDICTS, Ending, Then, judge_loading
from llmgw.gateway.replies import Code, Refusal


def rows(then, breaker, code, *statuses):
    return [pytest.param(status, then, breaker, code, id=str(status)) for status in statuses]


@pytest.mark.parametrize(
    ("status", "then", "breaker", "code"),
    [
        *rows(Then.COMMIT, Outcome.OK, None, 200, 201, 204, 299),
        *rows(Then.ANSWER, Outcome.NEUTRAL, None, 300, 301, 302, 304, 307, 308),
        *rows(Then.ANSWER, Outcome.NEUTRAL, None, 400, 402, 405, 409, 410, 413, 415, 418, 422, 431),
        *rows(Then.ANSWER, Outcome.FAILED, Code.UPSTREAM_AUTH_FAILED, 401, 403, 407),
        *rows(Then.RETRY, Outcome.NEUTRAL, None, 404, 408, 429),
        *rows(Then.RETRY, Outcome.FAILED, None, 500, 502, 503, 504, 507, 529, 599),
        *rows(Then.ANSWER, Outcome.NEUTRAL, None, 501, 505),
    ],
)
def test_status_of_an_engine_means_what_the_table_says(status, then, breaker, code):
    verdict = VERDICTS[status]
    assert (verdict.then, verdict.breaker, verdict.code) == (then, breaker, code)


def test_every_status_has_a_verdict():
    assert set(VERDICTS) == set(range(200, 600))


@pytest.mark.parametrize(
    ("ending", "breaker", "status"),
    [
        (Ending.DIAL_FAILED, Outcome.FAILED, 502),
        (Ending.LOST_BEFORE_HEAD, Outcome.FAILED, 502),
        (Ending.HEAD_TIMEOUT, Outcome.FAILED, 502),
        (Ending.LOST_BEFORE_BODY, Outcome.FAILED, 502),
        (Ending.BODY_TIMEOUT, Outcome.FAILED, 504),
        (Ending.ENDPOINT_LEFT, Outcome.NEUTRAL, 502),
    ],
)
def test_attempt_without_an_answer_is_retried_and_has_an_answer_if_it_was_the_last(
    ending, breaker, status
):
    verdict = ENDINGS[ending]
    assert verdict.then is Then.RETRY
    assert verdict.breaker is breaker
    assert Refusal(verdict.code).status == status


def test_every_ending_is_in_the_table():
    assert set(ENDINGS) == set(Ending)


def test_engine_that_is_loading_is_not_to_blame():
    body = b'{"error":{"message":"Loading model","code":503}}'
    verdict = judge_loading(VERDICTS[503], status=503, body=body)
    assert (verdict.then, verdict.breaker) == (Then.RETRY, Outcome.NEUTRAL)


def test_only_a_503_can_mean_loading():
    assert judge_loading(VERDICTS[500], status=500, body=b"loading") is VERDICTS[500]
    assert judge_loading(VERDICTS[503], status=503, body=b"overloaded?") is not PASS_ON
    assert judge_loading(VERDICTS[503], status=503, body=b"broken") is VERDICTS[503]
