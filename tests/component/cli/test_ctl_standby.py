"""What ``llmgw ctl`` does with a standby: a write goes to the leader, a read says what it is of."""

from __future__ import annotations

import pytest

from llmgw.api.application import create_app
from llmgw.cli.failures import ExitCode
from llmgw.domain.status_views import LeadView
from tests.fakes import commands
from tests.fakes.fleet import FakeFleet, FakeLead, FakeReadiness, control_of
from tests.fakes.listening import listening


def admin(lead, *, port=0):
    """An admin port of a control plane that stands so."""
    control = control_of(FakeFleet())
    object.__setattr__(control, "lead", FakeLead(lead))
    return listening(create_app(readiness=FakeReadiness(), control=control), port=port)


@pytest.fixture
def leader():
    with admin(LeadView("leads", term=2)) as url:
        yield url


def ctl(url, *words):
    return commands.here("ctl", "--admin", url, *words)


def state(url):
    return ctl(url, "nodes", "--json").stdout


def test_a_write_is_said_again_to_the_leader(leader):
    address = leader.removeprefix("http://")
    with admin(LeadView("standby", address=address)) as standby:
        done = ctl(standby, "cordon", "gpu01", "--reason", "new fan")
        assert done.returncode == 0
        assert done.stdout.splitlines()[0] == "gpu01 is cordoned: new fan"
        assert done.stderr == f"llmgw: {standby} is a standby: asking the leader at {leader}\n"
        assert '"new fan"' not in state(standby)
    assert '"new fan"' in state(leader)


def test_a_read_says_that_it_is_of_a_standby_and_goes_nowhere_else():
    with admin(LeadView("standby", address="10.0.0.5:9090")) as standby:
        done = ctl(standby, "nodes", "--json")
    assert done.returncode == 0
    assert done.stdout.startswith("{")
    assert done.stderr == (
        f"llmgw: {standby} is a standby and shows only what it knows itself; 10.0.0.5:9090 leads\n"
    )


def test_where_nobody_is_known_to_lead_a_write_is_refused():
    with admin(LeadView("standby")) as standby:
        done = ctl(standby, "cordon", "gpu01")
    assert done.returncode == ExitCode.REFUSED
    assert "no leader is known yet; try again in a moment" in done.stderr


def test_a_leader_that_does_not_answer_is_named():
    with admin(LeadView("standby", address="127.0.0.1:1")) as standby:
        done = ctl(standby, "cordon", "gpu01")
    assert done.returncode == ExitCode.UNREACHABLE
    assert "asking the leader at http://127.0.0.1:1" in done.stderr
    assert "no control plane answers at http://127.0.0.1:1" in done.stderr


def test_two_that_name_each_other_are_asked_once_each():
    with (
        admin(LeadView("standby", address="127.0.0.1:1")) as one,
        admin(LeadView("standby", address=one.removeprefix("http://"))) as other,
    ):
        done = ctl(other, "cordon", "gpu01")
    assert done.returncode == ExitCode.REFUSED
    assert "ask the one that leads, at 127.0.0.1:1" in done.stderr


def test_one_that_names_itself_is_not_asked_again():
    with admin(LeadView("standby")) as own:
        port = int(own.rpartition(":")[2])
    with admin(LeadView("standby", address=f"127.0.0.1:{port}"), port=port) as standby:
        done = ctl(standby, "cordon", "gpu01")
    assert done.returncode == ExitCode.REFUSED
    assert done.stderr.count("llmgw:") == 2


def test_a_leader_whose_lease_ran_out_says_that_nothing_is_changed():
    with admin(LeadView("lapsed", term=2, address="x:1")) as url:
        assert "until its store answers" in ctl(url, "cordon", "gpu01").stderr
        assert "nothing is changed until its store answers" in ctl(url, "nodes").stderr
