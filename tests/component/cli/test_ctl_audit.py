"""``llmgw ctl audit`` shows what was done by whom, and what ``ctl`` does is in it."""

from __future__ import annotations

import json
import os
import pwd

import pytest

from llmgw.api.application import create_app
from llmgw.cli import failures
from llmgw.errors import NoStore
from tests.fakes import commands
from tests.fakes.fleet import FakeAudit, FakeFleet, FakeReadiness, control_of
from tests.fakes.listening import listening


class NoAudit(FakeAudit):
    async def page(self, wanted, *, limit):
        raise NoStore("this server has no store, so acts are in its log only; set auth.store")


@pytest.fixture
def control():
    return control_of(FakeFleet())


@pytest.fixture
def ctl(control):
    """Runs ``llmgw ctl`` against an admin port."""
    with listening(create_app(readiness=FakeReadiness(), control=control)) as url:

        def run(*words):
            return commands.here("ctl", "--admin", url, *words)

        yield run


def test_what_ctl_does_is_shown_with_who_did_it_the_newest_last(ctl):
    assert ctl("cordon", "gpu01", "--reason", "new fan").returncode == 0
    assert ctl("uncordon", "nosuch").returncode == failures.ExitCode.UNKNOWN
    me = pwd.getpwuid(os.getuid()).pw_name
    done = ctl("audit")
    assert done.stdout.splitlines() == [
        f"TIME                  {'WHO'.ljust(len(me))}  DID            TO      OUTCOME  WITH",
        f"1970-01-01T00:00:01Z  {me}  node.cordon    gpu01   done     reason=new fan",
        f"1970-01-01T00:00:02Z  {me}  node.uncordon  nosuch  unknown  -",
    ]


def test_a_program_gets_the_document_as_it_came(ctl):
    ctl("drain", "gpu01")
    (entry,) = json.loads(ctl("audit", "--json").stdout)["entries"]
    assert (entry["action"], entry["target"], entry["origin"]) == ("node.drain", "gpu01", "cli")


def test_the_list_is_narrowed_by_what_and_when(ctl):
    for node in ("gpu01", "cpu01"):
        ctl("cordon", node)
    assert "cpu01" not in ctl("audit", "--subject", "gpu01").stdout
    assert ctl("audit", "--limit", "1").stdout.count("node.cordon") == 1
    assert ctl("audit", "--since", "2h").stdout.splitlines()[1:] == [
        "nothing of that was done or refused"
    ]
    assert ctl("audit", "--since", "1970-01-01T00:00:02").stdout.count("node.cordon") == 1
    assert ctl("audit", "--since", "yesterday").returncode == failures.ExitCode.USAGE


def test_without_a_store_it_says_what_to_do(ctl, control):
    object.__setattr__(control, "audit", NoAudit())
    done = ctl("audit")
    assert done.returncode == failures.ExitCode.REFUSED
    assert done.stderr == (
        "llmgw: this server has no store, so acts are in its log only; set auth.store\n"
    )


def test_follow_shows_what_is_done_from_then_on(control):
    with listening(create_app(readiness=FakeReadiness(), control=control)) as url:
        commands.here("ctl", "--admin", url, "cordon", "gpu01")
        following = commands.start("ctl", "--admin", url, "audit", "--follow", "--json")
        try:
            first = json.loads(following.stdout.readline())
            commands.here("ctl", "--admin", url, "uncordon", "gpu01")
            second = json.loads(following.stdout.readline())
        finally:
            following.kill()
            following.communicate()
    assert [one["action"] for one in (first, second)] == ["node.cordon", "node.uncordon"]
