"""Engines that are sets of Python packages, with small wheels in place of vLLM, SGLang and torch.

The environment, pip, the hashes and the probes are real.
"""

from __future__ import annotations

import ensurepip
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from llmgw.agent.install import release_hosts
from llmgw.agent.install.builds import Builds
from llmgw.agent.install.examining import Examiner
from llmgw.agent.install.installing import Installer
from llmgw.agent.install.tools import Tools
from llmgw.domain.nodes import Host, InstallState
from tests.fakes import commands, engine_releases
from tests.fakes.engine_releases import wheel

PYTHON = f"py{sys.version_info[0]}{sys.version_info[1]}"
VLLM = "__version__ = '0.11.0'\ndef main():\n    print(__version__)\n"
TORCH = """
class cuda:
    is_available = staticmethod(lambda: True)
    class nccl:
        version = staticmethod(lambda: (2, 27, 3))
"""


@dataclass
class PackageRelease:
    """A release of an engine for one Python and one CUDA; what a test does not name is right."""

    engine: str = "vllm"
    version: str = "0.11.0"
    lock: str = f"lock-cu128-{PYTHON}-x86_64.txt"
    module: str = VLLM
    torch: str = TORCH
    has_pip: bool = True
    spoilt: dict[str, bytes] = field(default_factory=dict)

    def files(self) -> dict[str, bytes]:
        wheels = dict(
            [
                wheel(self.engine, self.version, self.module, script=self.engine),
                wheel("torch", "2.9.0", self.torch),
            ]
        )
        lines = [
            f"{name.split('-')[0]}=={name.split('-')[1]} "
            f"--hash=sha256:{engine_releases.sha256(content)}"
            for name, content in wheels.items()
        ]
        files = {self.lock: "\n".join(lines).encode(), **wheels}
        files.setdefault(f"lock-cu128-{PYTHON}-aarch64.txt", b"torch==9")
        if self.has_pip:
            bundled = next(bundled_wheels().glob("pip-*.whl"))
            files[bundled.name] = bundled.read_bytes()
        return files

    def place(self, base: Path) -> None:
        folder = engine_releases.place(base, self.engine, self.version, self.files())
        for name, content in self.spoilt.items():
            (folder / name).write_bytes(content)


def bundled_wheels():
    """Debian keeps them apart from the module."""
    apart = sysconfig.get_config_var("WHEEL_PKG_DIR")
    return Path(apart) if apart else Path(ensurepip.__file__).parent / "_bundled"


@pytest.fixture
def machine(tmp_path):
    def make(release, *, driver="570.133.20"):
        release.place(tmp_path / "bundle")
        tools = Tools(environ=commands.environment())
        examiner = Examiner(
            builds=Builds(tmp_path / "engines"),
            host=Host(arch="amd64", nvidia_driver=driver),
            tools=tools,
        )
        sources = [release_hosts.parse(f"bundle={tmp_path / 'bundle'}")]
        return Installer(examiner=examiner, sources=sources)

    return make


def test_a_locked_set_of_packages_becomes_an_environment_that_runs(machine, tmp_path):
    installer = machine(PackageRelease())
    outcome = installer.install("vllm", "0.11.0")
    assert (outcome.status.state, outcome.status.detail) == (InstallState.READY, "vllm 0.11.0")
    assert outcome.status.variant == f"cu128-{PYTHON}"
    assert outcome.program == outcome.folder / "bin" / "vllm"
    told = subprocess.run([outcome.program], capture_output=True, text=True, check=True)
    assert told.stdout == "0.11.0\n"
    assert not list(outcome.folder.parent.glob("*.partial"))
    assert not installer.install("vllm", "0.11.0").is_changed
    for file in (tmp_path / "bundle").rglob("*.whl"):
        file.unlink()
    assert installer.install("vllm", "0.11.0").is_ready
    assert installer.examiner.check("vllm").is_ready


@pytest.mark.slow
def test_sglang_is_started_by_the_python_of_its_environment(machine):
    outcome = machine(PackageRelease(engine="sglang", version="0.5.3")).install("sglang", "0.5.3")
    assert outcome.is_ready, outcome.status.detail
    assert outcome.program == outcome.folder / "bin" / "python"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "words"),
    [
        pytest.param(
            PackageRelease(spoilt={"torch-2.9.0-py3-none-any.whl": b"evil"}),
            "the checksum of torch-2.9.0",
            id="changed wheel",
        ),
        pytest.param(
            PackageRelease(module="raise ImportError('libcudart.so.12')"),
            "loading it failed: ImportError: libcudart.so.12",
            id="does not load",
        ),
        pytest.param(
            PackageRelease(torch=TORCH.replace("True", "False")),
            "look for a card failed: no card",
            id="sees no card",
        ),
    ],
)
def test_an_environment_that_does_not_work_leaves_nothing(machine, tmp_path, release, words):
    outcome = machine(release).install("vllm", "0.11.0")
    assert outcome.status.state is InstallState.FAILED
    assert words in outcome.status.detail
    assert [p.name for p in (tmp_path / "engines" / "vllm").glob("[!.]*")] == []


@pytest.mark.slow
def test_a_lock_that_asks_for_a_wheel_that_is_not_there_fails_without_asking_any_index(machine):
    release = PackageRelease()
    files = release.files()
    lock = files[release.lock] + b"\nray==2.49 --hash=sha256:" + b"a" * 64
    release.files = lambda: {**files, release.lock: lock}
    outcome = machine(release).install("vllm", "0.11.0")
    assert outcome.status.state is InstallState.FAILED
    assert "ray" in outcome.status.detail


@pytest.mark.parametrize(
    ("lock", "driver", "words"),
    [
        pytest.param(
            f"lock-cu128-{PYTHON}-x86_64.txt",
            "470.82.01",
            "a driver of 525.60.13 or newer, and this machine has 470.82.01",
            id="driver",
        ),
        pytest.param(
            "lock-cu128-py399-x86_64.txt", "570.1", "packaged for Python 3.99", id="python"
        ),
    ],
)
def test_what_the_machine_lacks_is_named_before_anything_is_built(
    machine, tmp_path, lock, driver, words
):
    release = PackageRelease(lock=lock)
    outcome = machine(release, driver=driver).install("vllm", "0.11.0")
    assert outcome.status.state is InstallState.UNSUPPORTED
    assert words in outcome.status.detail
    assert [p.name for p in (tmp_path / "engines" / "vllm").glob("[!.]*")] == []


def test_the_public_site_of_another_engine_is_not_asked(machine, tmp_path):
    installer = machine(PackageRelease())
    site = engine_releases.Site()
    with engine_releases.serving(site.answer) as url:
        sources = [release_hosts.parse(f"github={url}")]
        outcome = Installer(examiner=installer.examiner, sources=sources).install("vllm", "0.11.0")
    assert "give a bundle or a mirror" in outcome.status.detail
    assert site.requests == []
