"""``llmgw ctl engine-check``: nodes ask their own engines, and a person reads what came of it."""

from __future__ import annotations

import json

import pytest

from llmgw.api.application import create_app
from tests.fakes import commands
from tests.fakes.fleet import FakeFleet, FakeReadiness, control_of
from tests.fakes.listening import listening


@pytest.fixture
def ctl():
    with listening(create_app(readiness=FakeReadiness(), control=control_of(FakeFleet()))) as url:
        yield lambda *args: commands.here(
            "ctl", "engine-check", *args, environ={"LLMGW_CTL_URL": url}
        )


def test_nodes_that_have_the_engine_are_asked_and_what_is_wrong_is_shown(ctl):
    done = ctl("vllm")
    assert done.returncode == 7, done.stderr
    head, good, bad = done.stdout.splitlines()
    assert head.split() == ["NODE", "PROGRAM", "RESULT", "DETAIL"]
    assert good.split()[0] == bad.split()[0] == "gpu01"
    assert "vllm serve --help=all" in good
    assert "10 options" in good
    assert "failed" in bad
    assert "it has no option --head" in bad


def test_programs_read_one_document(ctl):
    done = ctl("sim", "--node", "gpu01", "--json")
    assert done.returncode == 0, done.stderr
    [checked] = json.loads(done.stdout)["checks"]
    assert (checked["node_id"], checked["engine"], checked["is_good"]) == ("gpu01", "sim", True)
    assert checked["programs"] == [{"subject": "sim", "is_done": True, "detail": "5 options"}]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("sglang",), 4, "no connected node has an engine 'sglang'"),
        (("vllm", "--node", "nowhere"), 4, "no node 'nowhere'"),
        (("vllm", "--node", "cpu01"), 1, "is not connected"),
    ],
    ids=["nobody-has-it", "no-such-node", "away"],
)
def test_who_cannot_be_asked_is_said(ctl, args, code, words):
    done = ctl(*args)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
