"""What the agent tells of engines that were installed, also while and after that goes wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.agent import stocktaking
from llmgw.agent.install import release_hosts
from llmgw.agent.install.builds import Builds
from llmgw.agent.install.examining import Examiner
from llmgw.agent.install.installing import Installer, Policy
from llmgw.agent.install.notices import Notices
from llmgw.agent.install.standing import CHECK_FAILED_S, CHECK_S, EngineWatch
from llmgw.agent.install.tools import Tools
from llmgw.config.settings import AgentSettings
from llmgw.config.tending import EnginesSettings, LlamaCppSettings
from llmgw.domain.nodes import EngineInstall, Host, InstallState
from tests.fakes import engine_releases
from tests.fakes.clock import FakeClock
from tests.fakes.engine_releases import Programs, cpu_asset, llamacpp


class Node:
    """A machine with a bundle, an installer, and the agent's watch over what it does."""

    def __init__(self, folder):
        self.programs = Programs(folder / "bin")
        self.programs.add("dpkg-query", "echo 'ii '")
        self.programs.add("apt-get", "exit 0")
        self.programs.add("ldd", "exit 1")
        self.root, self.bundle, self.clock = folder / "engines", folder / "bundle", FakeClock()
        tools = Tools(environ=self.programs.environ, clock=self.clock)
        self.examiner = Examiner(Builds(self.root), Host(arch="amd64", cpu_flags=("avx",)), tools)
        self.watch = self.watching()

    def watching(self, *, opted_out=()):
        return EngineWatch(
            builds=Builds(self.root),
            examiner=lambda: self.examiner,
            opted_out=opted_out,
            clock=self.clock,
        )

    def install(self, version, *, content=None, **policy):
        place = self.bundle / "engines" / "llamacpp" / version
        if not place.exists():
            files = {cpu_asset(version): llamacpp(version) if content is None else content}
            engine_releases.place(self.bundle, "llamacpp", version, files)
        self.clock.advance(1.0)
        sources = [release_hosts.parse(f"bundle={self.bundle}")]
        return Installer(self.examiner, sources, Policy(**policy)).install("llamacpp", version)

    def starts(self):
        """How often a build was tried."""
        return len([c for c in self.programs.calls if c.startswith("ldd")])


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_nothing_is_told_where_nothing_was_installed(node):
    assert node.watch.look().installs == ()


def test_a_new_build_is_told_at_the_next_heartbeat_with_what_is_wrong_with_the_machine(node):
    node.watch.look()
    node.install("b1")
    seen = node.watch.look()
    assert seen.versions == {"llamacpp": "b1"}
    (install,) = seen.installs
    assert (install.state, install.detail) == (InstallState.READY, "version: 10991 (abc1234)")
    assert "no AVX2" in install.warning


def test_a_build_is_not_started_at_every_heartbeat(node):
    node.install("b1")
    node.watch.look()
    before = node.starts()
    node.clock.advance(CHECK_S - 1)
    node.watch.look()
    assert node.starts() == before
    node.clock.advance(1)
    node.watch.look()
    assert node.starts() == before + 1


def test_a_library_that_goes_is_found_and_its_return_is_found_sooner(node):
    node.install("b1")
    node.watch.look()
    node.programs.add("ldd", "echo 'libfoo.so.2 => not found'")
    node.clock.advance(CHECK_S)
    seen = node.watch.look()
    assert seen.versions == {}
    assert (seen.installs[0].state, seen.engines) == (InstallState.FAILED, {"llamacpp"})
    assert "libfoo.so.2 is not installed" in seen.installs[0].detail
    node.programs.add("ldd", "exit 1")
    node.clock.advance(CHECK_FAILED_S)
    assert node.watch.look().versions == {"llamacpp": "b1"}


def test_a_failed_upgrade_is_told_while_the_build_before_goes_on(node):
    node.install("b1")
    node.install("b2", content=b"rubbish")
    seen = node.watch.look()
    assert seen.versions == {"llamacpp": "b1"}
    assert (seen.installs[0].version, seen.installs[0].state) == ("b2", InstallState.FAILED)


def test_a_first_installation_that_failed_is_told_and_counts_as_no_engine(node):
    node.install("b1", content=b"rubbish")
    seen = node.watch.look()
    assert (seen.versions, seen.engines) == ({}, {"llamacpp"})
    assert "is no whole .tar.gz" in seen.installs[0].detail


def test_what_cannot_run_here_is_told_as_such_and_counts_as_no_engine(node):
    node.examiner = Examiner(Builds(node.root), Host(arch="riscv64"), node.examiner.tools)
    node.install("b1")
    seen = node.watch.look()
    assert (seen.versions, seen.engines) == ({}, {"llamacpp"})
    assert seen.installs[0].state is InstallState.UNSUPPORTED
    assert "no Linux build for riscv64" in seen.installs[0].detail


def test_a_step_under_way_is_told(node):
    step = EngineInstall("llamacpp", "b1", "cpu", InstallState.INSTALLING, "unpacking x")
    notices = Notices(node.root)
    with notices.installing("llamacpp"):
        notices.note(step)
        assert node.watch.look().installs == (step,)
    cut_off = node.watch.look().installs[0]
    assert cut_off == replace(
        step,
        state=InstallState.FAILED,
        detail="the installation was cut off while unpacking x; install it again",
    )


def test_an_engine_that_the_settings_name_is_left_alone(node):
    node.install("b1")
    seen = node.watching(opted_out=("llamacpp",)).look()
    assert (seen.versions, seen.installs) == ({}, ())


def test_the_agents_own_scan_and_drivers_use_what_was_installed(node):
    program = node.install("b1").program
    settings = AgentSettings(engines_dir=str(node.root))
    environ = node.programs.environ
    found = stocktaking.scanner(settings, environ=environ).engines()
    assert found.versions["llamacpp"] == "b1"
    words = stocktaking.engine_programs(settings, environ=environ)
    assert words["llamacpp"] == (str(program),)
    named = replace(settings, engines=EnginesSettings(llamacpp=LlamaCppSettings(bin="/bin/true")))
    assert stocktaking.scanner(named, environ=environ).engines().versions["llamacpp"] == "unknown"
