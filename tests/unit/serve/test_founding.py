"""``llmgw server init``: everything from nothing, nothing twice, and the rest of what was begun."""

from __future__ import annotations

import pytest

from llmgw.config import loading
from llmgw.errors import Invalid
from llmgw.rpc import authority, certificates
from llmgw.serve import unit_files
from llmgw.serve.founding import founder, unit_steps
from llmgw.serve.founding.ground import Ground, StepState
from llmgw.serve.founding.places import Places
from tests.fakes.clock import FakeClock
from tests.fakes.machines import Died, FakeMachine

DAY_S = 86400.0


class Site:
    """One machine over several runs."""

    def __init__(self, root):
        self.places = Places(root=root)
        for folder in ("etc/systemd/system", "usr/local/bin", "var/lib"):
            (root / folder).mkdir(parents=True)
        self.program = root / "opt/llmgw"
        self.program.parent.mkdir()
        self.program.write_text("#!/bin/sh\n")
        self.machine = FakeMachine()
        self.clock = FakeClock()
        self.machine.pause = self.clock.advance

    def found(self, *, hosts=(), is_trial=False, steps=founder.STEPS, needs_store=False):
        ground = Ground(
            machine=self.machine,
            clock=self.clock,
            places=self.places,
            program=self.program,
            hosts=(*self.machine.hosts(), *hosts),
            is_trial=is_trial,
            needs_store=needs_store,
        )
        return founder.found(ground, steps=steps)

    def tree(self):
        """Every file but the authority's memory, with its content."""
        root = self.places.root
        return {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def states(founded):
    return {step.name: step.state for step in founded.steps}


def test_from_nothing_to_a_control_plane_that_answers(site):
    founded = site.found()
    assert founded.failure is None
    assert list(states(founded)) == [name for name, _ in founder.STEPS]
    assert site.machine.running
    assert site.machine.enabled
    places = site.places
    problems = certificates.check_server_pair(
        ca=places.ca, cert=places.cert, key=places.key, now=site.clock.wall()
    )
    assert problems == ()
    assert certificates.inspect(places.cert).hosts == (
        "cp1",
        "cp1.lab",
        "localhost",
        "10.0.0.1",
        "127.0.0.1",
    )
    assert places.unit.read_text() == unit_files.text("llmgw-server")
    assert places.program.resolve() == site.program
    assert founded.ca_sha256 == certificates.inspect(places.ca).fingerprint


def test_what_others_may_read_is_as_the_unit_needs_it(site):
    site.found()
    places, owners = site.places, site.machine.owners
    assert owners[places.key] == ("llmgw", "llmgw")
    assert places.key.stat().st_mode & 0o777 == 0o400
    assert owners[places.state] == ("llmgw", "llmgw")
    assert (owners[places.secrets], owners[places.settings]) == (("root", "llmgw"),) * 2
    assert places.settings.stat().st_mode & 0o777 == 0o640
    assert (places.authority / "ca.key").stat().st_mode & 0o777 == 0o600
    assert places.authority.stat().st_mode & 0o777 == 0o700
    assert places.ca.stat().st_mode & 0o777 == 0o644


def test_the_first_settings_have_no_mistake_and_a_control_plane(site):
    site.found()
    settings = loading.load_server(site.places.settings, environ={})
    assert settings.has_control_plane
    assert settings.agent_tls.cert == str(site.places.cert)


def test_a_second_run_changes_nothing(site):
    site.found()
    before, calls = site.tree(), len(site.machine.calls)
    founded = site.found()
    assert not founded.is_changed
    assert set(states(founded).values()) == {StepState.OK}
    assert (site.tree(), len(site.machine.calls)) == (before, calls)


def test_a_trial_says_all_and_does_nothing(site):
    before = site.tree()
    founded = site.found(is_trial=True)
    assert founded.is_changed
    assert founded.failure is None
    assert [s.name for s in founded.steps if s.state is StepState.WOULD] == [
        name for name, _ in founder.STEPS[:-1]
    ]
    assert site.tree() == before
    assert site.machine.calls == []


def test_a_trial_on_a_whole_installation_would_change_nothing(site):
    site.found()
    assert not site.found(is_trial=True).is_changed


def test_a_further_host_is_added_and_the_service_learns_of_it(site):
    site.found()
    founded = site.found(hosts=("gw.example.com",))
    assert [s.name for s in founded.steps if s.state is StepState.DONE] == [
        "certificate",
        "service",
    ]
    assert site.machine.calls[-1] == "systemctl restart llmgw-server"
    site.found()
    assert "gw.example.com" in certificates.inspect(site.places.cert).hosts


def test_a_certificate_near_its_end_is_renewed(site):
    site.found()
    site.clock.jump(site.clock.wall() + 340 * DAY_S)
    assert states(site.found())["certificate"] is StepState.DONE


def test_nothing_that_a_person_wrote_is_overwritten(site):
    site.found()
    site.places.settings.write_text("listen: 127.0.0.1:8081\nadmin_listen: 127.0.0.1:9091\n")
    founded = site.found()
    assert not founded.is_changed
    assert "8081" in site.places.settings.read_text()
    assert "http://127.0.0.1:8081/health" in founded.steps[-1].detail


def test_mistakes_in_settings_are_told_and_left(site):
    site.found()
    site.places.settings.write_text("lisen: x\nadmin_listen: y\n")
    failure = site.found().failure
    assert failure.name == "settings"
    assert "lisen: unknown key" in failure.detail
    assert "admin_listen" in failure.detail


def test_a_certificate_of_another_authority_is_left_alone(site, tmp_path):
    site.found()
    authority.init_ca(tmp_path / "other", now=site.clock.wall())
    site.places.ca.write_bytes((tmp_path / "other" / "ca.pem").read_bytes())
    before = site.places.cert.read_bytes()
    founded = site.found()
    assert "left as it is" in founded.steps[3].detail
    assert site.places.cert.read_bytes() == before


def test_an_authority_on_another_machine_is_not_made_here(site, tmp_path):
    authority.init_ca(tmp_path / "other", now=site.clock.wall())
    site.places.etc.mkdir(parents=True)
    site.places.ca.write_bytes((tmp_path / "other" / "ca.pem").read_bytes())
    founded = site.found()
    assert founded.failure.name == "certificate"
    assert "llmgw ctl cert sign" in founded.failure.detail
    assert not site.places.authority.exists()


@pytest.mark.parametrize("count", range(len(founder.STEPS)))
def test_a_run_that_ended_after_any_step_is_finished_by_the_next(site, count):
    site.found(steps=founder.STEPS[:count])
    founded = site.found()
    assert founded.failure is None
    assert site.machine.running
    assert not site.found().is_changed


@pytest.mark.parametrize("count", range(9))
def test_a_run_that_was_killed_at_any_call_is_finished_by_the_next(site, count):
    whole = Site(site.places.root / "whole")
    whole.found()
    site.machine.dies_after = count
    with pytest.raises(Died):
        site.found()
    site.machine.dies_after = None
    founded = site.found()
    assert founded.failure is None
    assert {p.name: o for p, o in site.machine.owners.items()} == {
        p.name: o for p, o in whole.machine.owners.items()
    }
    assert not site.found().is_changed


def test_everything_in_the_way_is_told_before_the_first_change(site):
    site.machine.root = False
    site.machine.taken_ports = {8080, 7443}
    with pytest.raises(Invalid) as raised:
        site.found()
    lines = raised.value.message.splitlines()
    assert lines[0] == "nothing was changed, for this is in the way:"
    assert [line.partition(":")[0].strip() for line in lines[1:]] == [
        "this is not root",
        "listen",
        "agent_listen",
    ]
    assert site.machine.calls == []


def test_without_systemd_nothing_is_begun(site):
    site.machine.systemd = False
    with pytest.raises(Invalid, match="systemd does not run here"):
        site.found()


def test_a_program_that_the_service_could_not_see_is_refused(site):
    site.machine.hidden = (f"{site.program.parent}/",)
    with pytest.raises(Invalid, match="where a service cannot see it"):
        site.found()


def test_a_service_that_was_killed_before_its_restart_is_restarted_by_the_next_run(site):
    site.found()
    site.machine.dies_after = len(site.machine.calls)
    with pytest.raises(Died):
        site.found(hosts=("gw.example.com",))
    site.machine.dies_after = None
    assert states(site.found())["service"] is StepState.DONE
    assert site.machine.calls[-1] == "systemctl restart llmgw-server"


def test_a_unit_that_systemd_has_not_read_is_read(site):
    site.found()
    site.machine.reload_needed = True
    assert states(site.found())["unit"] is StepState.DONE
    assert site.machine.calls[-1] == "systemctl daemon-reload"


def test_ports_of_our_own_service_are_in_nobodys_way(site):
    site.found()
    site.machine.taken_ports = {8080, 9090, 7443}
    assert site.found().failure is None


def test_a_service_that_does_not_start_shows_the_end_of_its_log(site):
    site.machine.starts = False
    failure = site.found().failure
    assert failure.name == "service"
    assert "another line" in failure.detail


def test_a_service_that_does_not_answer_is_not_awaited_for_ever(site):
    site.machine.comes_up = False
    failure = site.found().failure
    assert failure.name == "answer"
    assert "did not answer within 60 s" in failure.detail
    assert "another line" in failure.detail


def test_the_units_hold_what_engines_and_streams_rest_on():
    agent, server = map(unit_files.text, ("llmgw-agent", "llmgw-server"))
    for line in (
        "After=network-online.target",
        "Wants=network-online.target",
        "KillMode=process",
        "Restart=on-failure",
        "RestartSec=2s",
    ):
        assert f"\n{line}\n" in agent
        assert f"\n{line}\n" in server
    assert "User=" not in agent
    assert "PrivateDevices" not in agent
    assert "StateDirectory=llmgw-agent\n" in agent
    for line in (
        "User=llmgw",
        "NoNewPrivileges=true",
        "ProtectSystem=strict",
        "ProtectHome=true",
        "PrivateTmp=true",
        "StateDirectory=llmgw",
        "RuntimeDirectoryPreserve=restart",
    ):
        assert f"\n{line}\n" in server


def test_the_service_has_the_time_that_its_requests_may_take():
    settings = loading.load_server(None, environ={})
    needed = settings.gateway.drain_delay_s + settings.gateway.shutdown_grace_s
    (line,) = (
        line
        for line in unit_files.text("llmgw-server").splitlines()
        if line.startswith("TimeoutStopSec=")
    )
    assert float(line.partition("=")[2]) > needed
    assert unit_steps.ANSWER_S <= 60


def test_the_first_settings_have_a_store_where_an_administrator_can_be_kept(site):
    assert site.found(needs_store=True).failure is None
    settings = loading.load_server(site.places.settings, environ={})
    assert settings.auth.store == str(site.places.store)


def test_settings_without_a_store_are_in_the_way_of_an_administrator(site):
    site.found()
    site.places.settings.write_text("listen: :8080\n")
    before = site.tree()
    with pytest.raises(Invalid, match=r"write 'auth: \{store: .*store\.db\}' into it"):
        site.found(needs_store=True)
    assert site.tree() == before
