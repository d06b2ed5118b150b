"""Engines installed by real programs from real servers; what is not right leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from llmgw.agent.install import release_hosts
from llmgw.agent.install.builds import MARKER, Builds
from llmgw.agent.install.examining import Examiner
from llmgw.agent.install.installing import Installer, Policy
from llmgw.agent.install.notices import Notices
from llmgw.agent.install.tools import Tools
from llmgw.domain.nodes import EngineInstall, Host, InstallState
from llmgw.errors import AlreadyHeld
from tests.fakes import commands, engine_releases
from tests.fakes.clock import FakeClock
from tests.fakes.engine_releases import Programs, Site, archive, cpu_asset, llamacpp, member

VERSION = "b10991"
LDD_MISSING = "echo 'libfoo.so.2 => not found'; exit 1"


@pytest.fixture
def site():
    made = Site(files={VERSION: {cpu_asset(): llamacpp()}})
    with engine_releases.serving(made.answer) as url:
        made.url = url
        yield made


@pytest.fixture
def programs(tmp_path):
    made = Programs(tmp_path / "bin")
    made.add("dpkg-query", "echo 'ii '")
    made.add("apt-get", "exit 0")
    made.add("ldd", "exit 1")
    return made


@pytest.fixture
def machine(tmp_path, site, programs):
    return Machine(tmp_path / "engines", site=site, programs=programs)


class Machine:
    """One machine on which engines are installed."""

    def __init__(self, root, *, site, programs):
        self.builds = Builds(root)
        self.site = site
        self.programs = programs
        self.host = Host(arch="amd64", cpu_flags=("avx", "avx2"))
        self.clock = FakeClock()
        self.said = []
        self.sources = [f"github={site.url}"]

    def installer(self, **policy):
        self.clock.advance(1.0)
        tools = Tools(environ=self.programs.environ, clock=self.clock, sleep=self.clock.advance)
        return Installer(
            examiner=Examiner(builds=self.builds, host=self.host, tools=tools),
            sources=[release_hosts.parse(written) for written in self.sources],
            policy=Policy(**policy),
            say=self.said.append,
        )

    def install(self, version=VERSION, engine="llamacpp", **policy):
        return self.installer(**policy).install(engine, version)

    def folders(self):
        engine = self.builds.root / "llamacpp"
        return sorted(p.name for p in engine.iterdir() if not p.name.startswith("."))

    def noted(self, engine="llamacpp"):
        return Notices(self.builds.root).noted(engine)


def assert_failed(outcome, *words):
    assert outcome.status.state is InstallState.FAILED, outcome
    assert [w for w in words if w not in outcome.status.detail] == [], outcome.status.detail
    return outcome


def test_from_nothing_to_a_program_that_was_seen_to_run(machine):
    outcome = machine.install()
    assert outcome.status == EngineInstall(
        "llamacpp", VERSION, "cpu", InstallState.READY, "version: 10991 (abc1234)"
    )
    assert outcome.is_changed
    folder = machine.builds.root / "llamacpp" / f"{VERSION}-cpu"
    assert outcome.program == folder / f"llama-{VERSION}" / "llama-server"
    marker = json.loads((folder / MARKER).read_text())
    assert marker["sha256"] == {cpu_asset(): engine_releases.sha256(llamacpp())}
    assert machine.folders() == [f"{VERSION}-cpu", "current"]
    assert any(step.startswith(f"downloading {cpu_asset()} (") for step in machine.said)
    assert machine.noted() == outcome.status


def test_a_second_time_nothing_is_fetched_and_nothing_changes(machine):
    machine.install()
    asked = len(machine.site.requests)
    outcome = machine.install()
    assert (outcome.status.state, outcome.is_changed) == (InstallState.READY, False)
    assert len(machine.site.requests) == asked


def test_what_would_be_done_is_said_and_not_done(machine):
    foreseen = machine.installer().foresee("llamacpp", VERSION)
    assert (foreseen.status.state, foreseen.is_changed) == (InstallState.WANTED, True)
    assert machine.site.requests == []
    assert not machine.builds.root.exists()
    machine.install()
    assert not machine.installer().foresee("llamacpp", VERSION).is_changed


def test_a_missing_package_is_installed_and_only_that(machine, programs):
    programs.add("dpkg-query", f"test -e {programs.folder}/done && echo 'ii '")
    programs.add("apt-get", f"touch {programs.folder}/done")
    assert machine.install().status.state is InstallState.READY
    assert [c for c in programs.calls if c.startswith("apt-get")] == [
        "apt-get -o=DPkg::Lock::Timeout=600 update",
        "apt-get -o=DPkg::Lock::Timeout=600 install -y --no-install-recommends libgomp1",
    ]


def test_a_package_that_is_there_is_never_touched(machine, programs):
    machine.install()
    assert [c for c in programs.calls if c.startswith("apt-get")] == []


@pytest.mark.parametrize(
    ("tool", "call"),
    [
        ("dnf", "dnf install -y libgomp"),
        ("yum", "yum install -y libgomp"),
        ("zypper", "zypper --non-interactive install libgomp"),
    ],
)
def test_a_system_of_the_rpm_family_uses_the_tool_that_it_has(machine, tmp_path, tool, call):
    machine.programs = rpm = Programs(tmp_path / "rpm")
    rpm.only()
    rpm.add("rpm", f"test -e {rpm.folder}/done")
    rpm.add(tool, f"touch {rpm.folder}/done")
    assert machine.install().status.state is InstallState.READY
    assert call in rpm.calls


def test_a_system_without_a_tool_for_packages_names_what_is_missing(machine, tmp_path):
    machine.programs = rpm = Programs(tmp_path / "rpm")
    rpm.only()
    rpm.add("rpm", "exit 1")
    assert_failed(machine.install(), "libgomp must be installed", "neither dnf nor yum nor zypper")


APT_LOCKED = (
    "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 3214 (apt-get)\n"
    "E: Unable to lock directory /var/lib/apt/lists/"
)
LOCKED = {
    "apt-get": APT_LOCKED,
    "dnf": "waiting for process with pid 3214 to finish.",
    "yum": "Another app is currently holding the yum lock; waiting for process with pid 3214",
    "zypper": "System management is locked by the application with pid 3214 (zypper).",
}


def locked_machine(machine, tmp_path, tool, text, *, times):
    """The tool says that it is locked for so many calls; then it works."""
    machine.programs = made = Programs(tmp_path / "locked")
    made.only()
    if tool == "apt-get":
        made.add("dpkg-query", f"test -e {made.folder}/done && echo 'ii '")
    else:
        made.add("rpm", f"test -e {made.folder}/done")
    (made.folder / "text").write_text(text)
    count = f"$(grep -c '^{tool} ' {made.folder}/calls)"
    body = f"if [ {count} -le {times} ]; then cat {made.folder}/text; exit 100; fi"
    made.add(tool, f"{body}\ntouch {made.folder}/done")
    return made


@pytest.mark.parametrize("tool", LOCKED)
def test_a_package_tool_that_is_in_use_is_waited_for_and_said(machine, tmp_path, tool):
    locked_machine(machine, tmp_path, tool, LOCKED[tool], times=3)
    began = machine.clock.monotonic()
    assert machine.install().status.state is InstallState.READY
    waits = [step for step in machine.said if "waiting for another package command" in step]
    assert len(waits) == 3
    assert machine.clock.monotonic() - began >= 30


def test_a_package_tool_is_not_waited_for_for_ever(machine, tmp_path):
    locked_machine(machine, tmp_path, "apt-get", APT_LOCKED, times=10_000)
    assert_failed(machine.install(), "held apt-get up for 600 s")
    assert len(machine.said) < 200


def test_any_other_failure_of_a_package_tool_is_final(machine, programs):
    programs.add("dpkg-query", "exit 1")
    programs.add("apt-get", "echo 'E: Unable to locate package libgomp1'; exit 100")
    assert_failed(machine.install(), "E: Unable to locate package libgomp1", "(100)")
    assert len([c for c in programs.calls if c.startswith("apt-get")]) == 1


def test_packages_are_left_to_whoever_said_so(machine, programs):
    programs.add("dpkg-query", "exit 1")
    outcome = machine.install(may_install_packages=False)
    assert_failed(outcome, "install them first: libgomp1")
    assert not any(c.startswith("apt-get") for c in programs.calls)


# What is refused, and that nothing of it stays


def nothing_left(machine):
    return machine.folders() == []


def test_a_wrong_checksum_is_named_by_both_beginnings(machine):
    machine.site.digests[cpu_asset()] = f"sha256:{'0' * 64}"
    own = engine_releases.sha256(llamacpp())[:12]
    assert_failed(machine.install(), f"is {own} and should be 000000000000")
    assert nothing_left(machine)


@pytest.mark.parametrize("digest", [None, "", "md5:abc", "sha256:abc"])
def test_a_file_without_a_published_checksum_is_not_installed(machine, digest):
    machine.site.digests[cpu_asset()] = digest
    assert_failed(machine.install(), f"has no {cpu_asset()}, or no checksum")
    assert nothing_left(machine)
    assert len(machine.site.requests) == 1


def test_a_pinned_checksum_stands_above_what_the_site_publishes(machine):
    assert_failed(machine.install(pinned={cpu_asset(): "1" * 64}), "should be 111111111111")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(archive((member("../../x"), "x")), "leads out", id="escape"),
        pytest.param(b"rubbish", "is no whole .tar.gz", id="rubbish"),
        pytest.param(archive((member("README"), "x")), "no program llama-server", id="no program"),
        pytest.param(
            archive((member("llama-server", mode=0o644), "x")), "no program", id="not runnable"
        ),
        pytest.param(
            llamacpp(program="#!/bin/sh\necho oops >&2\nexit 3\n"),
            "--version failed: oops",
            id="fails",
        ),
        pytest.param(
            llamacpp(program="#!/bin/sh\nkill -ILL $$\n"),
            "SIGILL: this processor lacks",
            id="instructions",
        ),
    ],
)
def test_an_archive_that_is_no_engine_leaves_nothing(machine, content, words):
    machine.site.files[VERSION] = {cpu_asset(): content}
    assert_failed(machine.install(), words)
    assert nothing_left(machine)
    assert nothing_left(machine)


def test_a_missing_library_is_named_and_leaves_nothing(machine, programs):
    programs.add("ldd", LDD_MISSING)
    assert_failed(machine.install(), "libfoo.so.2 is not installed")
    assert nothing_left(machine)


def test_a_library_that_has_gone_since_is_found_and_the_build_fetched_anew(machine, programs):
    machine.install()
    programs.add("ldd", LDD_MISSING)
    assert_failed(machine.installer().examiner.check("llamacpp"), "libfoo.so.2 is not installed")
    assert_failed(machine.install(), "libfoo.so.2")
    assert any("what is there does not run" in step for step in machine.said)


def test_a_build_that_was_damaged_is_installed_anew(machine):
    program = machine.install().program
    program.unlink()
    outcome = machine.install()
    assert (outcome.status.state, outcome.is_changed) == (InstallState.READY, True)
    assert program.exists()


def test_what_an_earlier_try_left_is_in_nobodys_way(machine):
    partial = machine.builds.root / "llamacpp" / f"{VERSION}-cpu.partial"
    partial.mkdir(parents=True)
    (partial / MARKER).write_text("{}")
    (machine.builds.root / "llamacpp" / f"{VERSION}-cpu").mkdir()
    assert machine.install().status.state is InstallState.READY
    assert machine.folders() == [f"{VERSION}-cpu", "current"]


# Builds for other machines


def test_a_node_with_cards_gets_the_cuda_build_and_its_libraries_in_one_folder(machine):
    machine.host = replace(machine.host, nvidia_driver="570.1")
    name = f"llama-{VERSION}-bin-ubuntu-cuda-12.8-x64.tar.gz"
    libraries = archive((member(f"llama-{VERSION}/libcudart.so.12"), "cuda"))
    machine.site.files[VERSION] = {name: llamacpp(), f"cudart-{name}": libraries}
    outcome = machine.install()
    assert outcome.status.variant == "cuda-12.8"
    assert (outcome.program.parent / "libcudart.so.12").exists()


def test_a_processor_without_avx2_is_ready_with_a_warning(machine):
    machine.host = replace(machine.host, cpu_flags=("avx",))
    for outcome in (machine.install(), machine.install()):
        assert outcome.status.state is InstallState.READY
        assert "no AVX2" in outcome.status.warning


@pytest.mark.parametrize(
    ("engine", "arch", "words"),
    [
        ("llamacpp", "riscv64", "no Linux build for riscv64"),
        ("vllm", "amd64", "no NVIDIA driver is loaded"),
    ],
)
def test_what_this_machine_cannot_run_is_unsupported_and_noted(machine, engine, arch, words):
    machine.host = replace(machine.host, arch=arch)
    outcome = machine.install(engine=engine)
    assert outcome.status.state is InstallState.UNSUPPORTED
    assert words in outcome.status.detail
    assert machine.noted(engine) == outcome.status


# Where it comes from


def test_a_bundle_needs_no_network(machine, tmp_path):
    engine_releases.place(tmp_path, "llamacpp", VERSION, {cpu_asset(): llamacpp()})
    machine.sources = [f"bundle={tmp_path}"]
    assert machine.install().status.state is InstallState.READY
    assert machine.site.requests == []


def test_a_mirror_is_asked_before_the_public_site_and_each_next_one_only_if_need_be(
    machine, tmp_path
):
    engine_releases.place(tmp_path, "llamacpp", VERSION, {cpu_asset(): llamacpp()})
    machine.site.files["b2"] = {cpu_asset("b2"): llamacpp("b2")}
    with engine_releases.serving(engine_releases.serve_folder(tmp_path)) as url:
        machine.sources = [f"mirror={url}", f"github={machine.site.url}"]
        assert machine.install().status.state is InstallState.READY
        assert machine.site.requests == []
        assert machine.install("b2").status.state is InstallState.READY


def test_a_mirror_with_another_file_than_it_says_is_not_passed_over(machine, tmp_path):
    folder = engine_releases.place(tmp_path, "llamacpp", VERSION, {cpu_asset(): llamacpp()})
    (folder / cpu_asset()).write_bytes(llamacpp(program="#!/bin/sh\necho evil\n"))
    with engine_releases.serving(engine_releases.serve_folder(tmp_path)) as url:
        machine.sources = [f"mirror={url}", f"github={machine.site.url}"]
        assert_failed(machine.install(), "the checksum of")
    assert machine.site.requests == []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "there is no such release"),
        (403, "has asked too often"),
        (429, "has asked too often"),
        (500, "answers 500"),
    ],
)
def test_what_a_site_says_instead_of_a_release_is_told(machine, status, words):
    machine.site.status = status
    assert_failed(machine.install(), f"no source has llamacpp {VERSION}", words)


def test_a_site_that_is_away_is_told_with_its_address(machine):
    machine.sources = ["github=http://127.0.0.1:9"]
    assert_failed(machine.install(), "http://127.0.0.1:9")


# Upgrades


@pytest.fixture
def three(machine):
    machine.site.files |= {v: {cpu_asset(v): llamacpp(v)} for v in ("b2", "b3")}
    return machine


def test_an_upgrade_switches_and_keeps_the_build_before(three):
    three.install()
    three.install("b2")
    assert three.builds.current("llamacpp").marker.version == "b2"
    outcome = three.install("b3")
    assert outcome.removed == (f"{VERSION}-cpu",)
    assert three.folders() == ["b2-cpu", "b3-cpu", "current"]


def test_a_way_back_is_a_switch_without_a_download(three):
    three.install()
    three.install("b2")
    asked = len(three.site.requests)
    outcome = three.install()
    assert outcome.is_changed
    assert three.builds.current("llamacpp").marker.version == VERSION
    assert len(three.site.requests) == asked


def test_a_build_can_be_laid_beside_without_being_used(three):
    three.install()
    three.install("b2", may_activate=False)
    assert three.builds.current("llamacpp").marker.version == VERSION
    assert not three.installer(may_activate=False).foresee("llamacpp", "b2").is_changed
    assert three.installer().foresee("llamacpp", "b2").is_changed


def test_a_failed_upgrade_leaves_the_build_in_use(three, programs):
    three.install()
    three.site.files["b2"] = {cpu_asset("b2"): b"rubbish"}
    assert_failed(three.install("b2"))
    assert three.installer().examiner.check("llamacpp").status.version == VERSION
    assert three.noted().version == "b2"


def test_a_build_that_runs_is_never_removed(three):
    program = three.install().program
    program.unlink()
    program.symlink_to("/bin/sleep")
    program.unlink()
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    engine = subprocess.Popen([str(program), "60"])
    try:
        three.install("b2", keep=1)
        assert f"{VERSION}-cpu" in three.folders()
    finally:
        engine.kill()
        engine.wait()
    assert three.install("b3", keep=1).removed == ("b2-cpu", f"{VERSION}-cpu")


# Two at a time, and ends before the end


def test_two_installations_of_one_engine_do_not_meet(machine):
    with Notices(machine.builds.root).installing("llamacpp"):
        assert Notices(machine.builds.root).is_installing("llamacpp")
        with pytest.raises(AlreadyHeld, match="another installation of llamacpp runs"):
            machine.install()
    assert not Notices(machine.builds.root).is_installing("llamacpp")


def test_the_step_under_way_can_be_seen_and_a_killed_installation_was_cut_off(machine, tmp_path):
    arrived, gate = threading.Event(), threading.Event()

    def slow(path):
        arrived.set()
        gate.wait(timeout=30)
        return machine.site.answer(path)

    with engine_releases.serving(slow) as url:
        words = ["engine", "install", "llamacpp", "--version", VERSION, "--source", f"github={url}"]
        running = subprocess.Popen(
            [sys.executable, "-m", "llmgw", *words, "--dir", str(machine.builds.root)],
            env=commands.environment(machine.programs.environ),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            assert arrived.wait(timeout=30)
            seen = machine.noted()
            assert (seen.state, seen.version) == (InstallState.INSTALLING, VERSION)
            assert "asking for checksums" in seen.detail
            os.kill(running.pid, signal.SIGKILL)
            running.wait(timeout=30)
        finally:
            gate.set()
    said = machine.noted()
    assert said.state is InstallState.FAILED
    assert "cut off while asking for checksums" in said.detail
    assert machine.install().status.state is InstallState.READY
