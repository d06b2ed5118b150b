"""``llmgw ctl usage`` shows what was used, writes it for spreadsheets, and checks its sums."""

from __future__ import annotations

import csv
import io
import json

import pytest

from llmgw.api.application import create_app
from llmgw.cli import failures
from llmgw.domain.usage_reports import GROUPINGS, Span
from llmgw.kit.clock import SystemClock
from llmgw.serve.usage_shown import UsageShown
from tests.fakes import commands
from tests.fakes.fleet import FakeFleet, FakeReadiness, control_of
from tests.fakes.listening import listening
from tests.fakes.usage import NOON, row


@pytest.fixture(scope="module")
def control():
    return control_of(FakeFleet())


@pytest.fixture(scope="module")
def ctl(control):
    """Runs ``llmgw ctl`` against an admin port."""
    with listening(create_app(readiness=FakeReadiness(), control=control)) as url:

        def run(*words):
            return commands.here("ctl", "--admin", url, *words)

        yield run


def test_sums_are_shown_with_a_budget_beside_them(ctl):
    lines = ctl("usage").stdout.splitlines()
    assert lines[0].split() == [
        *("KEY", "NAME", "REQUESTS", "FAILED", "ABORTED", "LOST"),
        *("PROMPT", "COMPLETION", "CACHED", "MICROS", "BUDGET"),
    ]
    assert lines[1].split() == [
        "k1",
        "laptop",
        *"3110",
        "30",
        "15",
        "4",
        "75",
        "1000",
        "a",
        "month",
    ]
    assert lines[2].split() == ["k2", "-", *"10000000", "-"]


@pytest.mark.parametrize("by", GROUPINGS)
def test_each_grouping_is_asked_for_by_its_word(ctl, control, by):
    assert ctl("usage", "--by", by, "--since", "2025-11-30T12:10").returncode == 0
    asked_by, span, key, limit = control.usage.asked[-1]
    assert (asked_by, key, limit) == (by, "", 1000)
    assert span == Span(NOON, None)  # in whole hours


def test_a_word_that_is_no_grouping_is_refused_with_those_there_are(ctl):
    refused = ctl("usage", "--by", "planet")
    assert refused.returncode == failures.ExitCode.USAGE
    assert "'team', 'project', 'org', 'model', 'day'" in refused.stderr


def test_a_report_is_written_for_a_spreadsheet(ctl):
    rows = list(csv.DictReader(io.StringIO(ctl("usage", "--by", "user", "--csv").stdout)))
    assert [one["user"] for one in rows] == ["k1", "k2"]
    assert (rows[0]["cost_micros"], rows[0]["budget_micros"]) == ("75", "1000")


def test_every_request_is_written_as_it_comes(ctl, control):
    control.usage.requests = [
        row("r1", at=NOON),
        row("=1+1", at=NOON + 0.5, outcome="aborted", is_estimated=True, ttft_ms=None),
    ]
    rows = list(csv.DictReader(io.StringIO(ctl("usage", "requests", "--since", "1h").stdout)))
    assert [one["time"] for one in rows] == [
        "2025-11-30T12:00:00.000+00:00",
        "2025-11-30T12:00:00.500+00:00",
    ]
    assert rows[0]["request_id"] == "r1"
    assert rows[1]["request_id"] == "'=1+1"  # no formula of a client's
    assert (rows[1]["outcome"], rows[1]["is_estimated"], rows[1]["ttft_ms"]) == (
        "aborted",
        "true",
        "",
    )


def test_requests_are_no_json_document(ctl):
    refused = ctl("usage", "requests", "--json")
    assert refused.returncode == failures.ExitCode.USAGE
    assert "leave --json out" in refused.stderr


def test_sums_that_agree_are_said_to(ctl, control):
    control.usage.has_rows = True
    done = ctl("usage", "verify")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].split() == ["2025-11-30", "2", "2", "2", "0", "yes"]


def test_sums_that_differ_are_said_and_end_with_code_7(ctl, control):
    control.usage.has_rows = False
    done = ctl("usage", "verify", "--json")
    assert done.returncode == failures.ExitCode.CHECK_SAID_NO
    assert json.loads(done.stdout)["agree"] is False


def test_without_a_store_each_question_says_so():
    control = control_of(FakeFleet())
    bare = UsageShown(rows=None, sums=None, clock=SystemClock())
    object.__setattr__(control, "usage", bare)
    with listening(create_app(readiness=FakeReadiness(), control=control)) as url:
        for words in ([], ["requests"], ["verify"]):
            refused = commands.here("ctl", "--admin", url, "usage", *words)
            assert refused.returncode == failures.ExitCode.REFUSED
            assert "set auth.store to have it kept" in refused.stderr
