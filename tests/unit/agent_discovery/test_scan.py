"""One look at a machine: who is asked for the cards, and what survives a failure."""

from pathlib import Path

import pytest

from llmgw.agent.discovery.nvml import Listing
from llmgw.agent.discovery.scan import Scanner, model_folders
from llmgw.agent.install.standing import Standings
from llmgw.config.settings import AgentSettings
from llmgw.config.tending import DiscoverySettings, FabricAdapters, WeightsSettings
from llmgw.domain.nodes import EngineInstall, Gpu, InstallState
from llmgw.errors import DiscoveryFailed

RECORDED = Path(__file__).parents[2] / "data" / "nvidia_smi"
CARD = Gpu(index=0, uuid="GPU-0", name="NVIDIA H200", nvlink_peers=(1,))


def _fails():
    raise DiscoveryFailed("NVML is not available: Driver Not Loaded")


def _program(folder, body):
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def make(tmp_path):
    def scanner(*, read_nvml=_fails, search_path=str(tmp_path), standings=Standings, **discovery):
        settings = AgentSettings(
            discovery=DiscoverySettings(**{"ib_root": str(tmp_path / "ib"), **discovery}),
            fabrics=(FabricAdapters(name="ib", hcas=("mlx5_0",)),),
            weights_dir=str(tmp_path),
        )
        return Scanner(
            settings=settings,
            programs=lambda: {"sim": ("/bin/sh",)},
            search_path=search_path,
            read_nvml=read_nvml,
            standings=standings,
        )

    return scanner


def _works(folder):
    return _program(folder, f"cat {RECORDED}/old-driver-10-columns.csv")


def test_the_library_is_asked_first(make, tmp_path):
    _works(tmp_path)
    cards = make(read_nvml=lambda: Listing((CARD,))).cards()
    assert (cards.source, cards.gpus, cards.failures) == ("nvml", (CARD,), ())


def test_nvidia_smi_takes_over_and_the_loss_of_the_topology_is_said(make, tmp_path):
    _works(tmp_path)
    cards = make().cards()
    assert (cards.source, len(cards.gpus)) == ("nvidia-smi", 2)
    assert "NVLink topology is unknown" in cards.failures[0]


def test_the_library_is_not_asked_when_it_is_not_wanted(make, tmp_path):
    _works(tmp_path)
    cards = make(prefer_nvml=False, read_nvml=lambda: pytest.fail("asked")).cards()
    assert (cards.source, len(cards.gpus), cards.failures) == ("nvidia-smi", 2, ())


def test_a_machine_without_a_driver_has_no_cards_and_nothing_failed(make):
    cards = make().cards()
    assert (cards.source, cards.gpus, cards.failures) == ("none", (), ())


def test_cards_can_be_left_out(make, tmp_path):
    program = _program(tmp_path, f"touch {tmp_path}/ran")
    scanner = make(skip_gpus=True, nvidia_smi=program, read_nvml=lambda: pytest.fail("asked"))
    assert (scanner.cards().source, scanner.cards().gpus) == ("none", ())
    assert not (tmp_path / "ran").exists()


def test_cards_that_cannot_be_read_hide_nothing_else(make, tmp_path):
    port = tmp_path / "ib" / "mlx5_0" / "ports" / "1"
    port.mkdir(parents=True)
    (port / "state").write_text("4: ACTIVE")
    (tmp_path / "m.gguf").write_text("12")
    scanner = make(nvidia_smi=str(tmp_path / "missing"))
    hardware, files = scanner.hardware(), scanner.files()
    assert hardware.cards.gpus == ()
    assert [str(tmp_path / "missing") in failure for failure in hardware.failures] == [True]
    assert hardware.memory_total_mb
    assert hardware.around.host.arch
    assert [check.usable for check in hardware.around.fabrics] == [("mlx5_0",)]
    assert [weights.size_bytes for weights in files.weights] == [2]
    assert len(files.storage) == 1


def test_adapters_that_cannot_be_read_hide_nothing_else(make, tmp_path):
    (tmp_path / "ib").touch()
    hardware = make(read_nvml=lambda: Listing((CARD,))).hardware()
    assert hardware.cards.gpus == (CARD,)
    assert len(hardware.failures) == 1
    assert hardware.around.fabrics[0].problems == ("adapter mlx5_0 was not found; found: none",)


def test_engines_are_those_whose_program_is_here(make):
    assert make().engines().versions == {"sim": "unknown"}


def _standings(**states):
    """Engines of an installation in these states, all of version 1."""
    installs = tuple(EngineInstall(e, "1", "cpu", state) for e, state in states.items())
    ready = {i.engine: i.version for i in installs if i.state is InstallState.READY}
    return lambda: Standings(versions=ready, installs=installs)


def test_an_installed_engine_is_reported_by_the_version_that_was_installed(make):
    found = make(standings=_standings(sim=InstallState.READY)).engines()
    assert found.versions == {"sim": "1"}
    assert [i.engine for i in found.installs] == ["sim"]


@pytest.mark.parametrize("state", [InstallState.FAILED, InstallState.INSTALLING])
def test_what_lies_on_path_does_not_stand_in_for_an_installation_that_is_not_ready(make, state):
    assert make(standings=_standings(sim=state)).engines().versions == {}


def test_an_installed_engine_without_a_driver_is_told_and_not_offered(make):
    found = make(standings=_standings(vllm=InstallState.READY)).engines()
    assert found.versions == {"sim": "unknown"}
    assert [i.engine for i in found.installs] == ["vllm"]


@pytest.mark.parametrize("is_declared", [True, False])
def test_a_folder_that_is_declared_as_shared_is_told_as_shared(tmp_path, is_declared):
    (tmp_path / "m.gguf").write_text("12")
    settings = AgentSettings(
        weights_dir=f"{tmp_path}/", weights=WeightsSettings(shared=is_declared)
    )
    scanner = Scanner(settings=settings, programs=dict, search_path="")
    files = scanner.files()
    assert [space.is_shared for space in files.storage] == [is_declared]
    assert [space.is_shared for space in scanner.space()] == [is_declared]
    assert [weights.is_shared for weights in files.weights] == [is_declared]


def test_the_folder_for_downloads_is_always_a_model_folder():
    settings = AgentSettings(model_dirs=("/srv/models/", "/srv/models"), weights_dir="/var/w")
    assert model_folders(settings) == ("/srv/models", "/var/w")
