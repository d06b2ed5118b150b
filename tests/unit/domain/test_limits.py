"""Which limits may be written, when their periods begin, and how a refusal is told."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from llmgw.domain import limits
from llmgw.domain.limits import Refusal
from llmgw.domain.principals import Level
from llmgw.errors import Invalid


def at(*moment):
    return datetime(*moment, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("period", "start"),
    [("day", at(2026, 2, 28)), ("month", at(2026, 2, 1)), ("lifetime", 0.0)],
)
def test_a_period_begins_by_utc(period, start):
    assert limits.period_start(period, at(2026, 2, 28, 23, 59, 59)) == start
    assert limits.period_start(period, start) == start


@pytest.mark.parametrize(
    "wrong",
    [
        Level("key", "k", rpm=0),
        Level("key", "k", tpm=-1),
        Level("key", "k", concurrency=0),
        Level("key", "k", rpm=2**63),
        Level("key", "k", budget=-1),
        Level("key", "k", budget=2**63),
        Level("key", "k", budget=1, period="year"),
        Level("galaxy", "k"),
        Level("key", "k", models=frozenset({" "})),
    ],
    ids=repr,
)
def test_what_is_no_limit_is_refused_with_what_to_write(wrong):
    with pytest.raises(Invalid, match=r"give|without a name"):
        limits.check(wrong)


def test_a_budget_of_nothing_and_an_empty_list_may_be_written():
    wanted = Level("key", "k", rpm=1, budget=0, models=frozenset())
    limits.check(wanted)
    assert limits.told(wanted) == {"rpm": 1, "budget": 0, "period": "lifetime", "models": []}


def test_a_refusal_names_the_place_the_limit_and_when_to_come_again():
    error = limits.reached(Refusal("requests", "team", "t1", 60, used=60, retry_after_s=1.0))
    assert error.message == "the team t1 has 60 requests in a minute, and 60 are used"
    assert (error.limit_kind, error.scope, error.scope_id) == ("requests", "team", "t1")
    assert error.retry_after_s == 1.0
