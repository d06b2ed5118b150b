"""``llmgw ctl model roll`` as a person and a program meet it."""

from __future__ import annotations

import json

import httpx
import pytest

from llmgw.api.application import create_app
from tests.fakes import commands
from tests.fakes.fleet import FakeFleet, FakeReadiness, control_of
from tests.fakes.listening import listening


@pytest.fixture
def fleet():
    return FakeFleet()


@pytest.fixture
def admin(fleet):
    with listening(create_app(readiness=FakeReadiness(), control=control_of(fleet))) as url:
        yield url


def ctl(url, *words):
    return commands.here("ctl", "model", *words, environ={"LLMGW_CTL_URL": url})


def test_a_roll_is_begun_and_told_how_to_watch(admin, fleet):
    done = ctl(admin, "roll", "big")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "big: 2 left to replace",
        "'llmgw ctl models' says how far it is",
    ]
    assert fleet.rolled == [("big", False)]


def test_a_program_gets_the_model_and_may_allow_an_interruption(admin, fleet):
    told = json.loads(ctl(admin, "roll", "big", "--may-interrupt", "--json").stdout)
    assert (told["name"], told["stale"]) == ("big", 2)
    assert fleet.rolled == [("big", True)]


def test_a_model_that_nobody_knows_is_an_unknown_thing(admin):
    done = ctl(admin, "roll", "gib")
    assert done.returncode == 4
    assert "the catalog has no model 'gib'" in done.stderr


def test_a_word_that_the_api_does_not_know_is_refused(admin, fleet):
    answer = httpx.post(f"{admin}/api/v1/models/big/roll", json={"may_interupt": True})
    assert answer.status_code == 400
    assert fleet.rolled == []
