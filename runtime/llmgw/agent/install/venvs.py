"""Installs an engine that is a set of Python packages, as a virtual environment of exact versions.

A release holds wheels and locks, one lock for each CUDA, Python and architecture:
``lock-cu128-py312-x86_64.txt``, in the form of pip's hash-checked requirements. The wheels that a
lock needs are those whose digests it names. Nothing is asked of any index.

The environment is built in its final place, because its scripts hold its path; the marker comes
last, so a half-built one is not trusted.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from llmgw.agent.install import archives, downloads
from llmgw.agent.install.builds import Builds, Installed, Marker
from llmgw.agent.install.recipes import PythonSet
from llmgw.agent.install.releases import Release
from llmgw.agent.install.tools import Tools
from llmgw.errors import EngineFailed, Unknown, Unsupported

Say = Callable[[str], None]

LEAST_DRIVER = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""The driver that programs of a CUDA major version need at least (NVIDIA, CUDA compatibility)."""

_LOCK = re.compile(r"lock-cu(\d{2})(\d)-py(\d)(\d+)-(x86_64|aarch64)\.txt")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VARIANT = re.compile(r"cu(\d{2})(\d)-py(\d)(\d+)")
_PIP = re.compile(r"pip-[0-9][^/]*-py3-none-any\.whl")
_PIP_S = 3600.0
_PROBE_S = 300.0
_ASK_S = 30.0
_QUIET = {
    "PIP_CONFIG_FILE": "/dev/null",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "VLLM_TARGET_DEVICE": "cpu",
}


@dataclass(frozen=True, slots=True)
class Lock:
    """One lock of a release: for which CUDA and which Python."""

    asset: str
    cuda: tuple[int, int]
    python: tuple[int, int]
    arch: str

    @property
    def variant(self) -> str:
        """The part of the folder's name that tells builds of one version apart."""
        return f"cu{self.cuda[0]}{self.cuda[1]}-py{self.python[0]}{self.python[1]}"


def install(
    wanted: PythonSet, release: Release, *, driver: str, builds: Builds, tools: Tools, say: Say
) -> None:
    """Build the environment with its marker, or raise and leave nothing behind."""
    lock, python = _choose(wanted, release, driver=driver, tools=tools)
    folder = builds.folder(wanted.engine, version=wanted.version, variant=lock.variant)
    wheels = builds.begin(folder)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        digests = _fetch(wheels, lock, release, tools=tools, say=say)
        _build(folder, wheels / lock.asset, python=python, tools=tools, say=say)
        say("checking that the engine runs")
        verify(folder, wanted, tools=tools, is_deep=True)
        marker = Marker(
            engine=wanted.engine,
            version=wanted.version,
            variant=lock.variant,
            program=wanted.program,
            sha256=digests,
            installed=archives.moment(tools.clock.wall()),
        )
        builds.finish(folder, marker)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise downloads.on_disk(error, folder) from error
        raise
    finally:
        shutil.rmtree(wheels, ignore_errors=True)


def present(wanted: PythonSet, builds: Builds, *, driver: str) -> Installed | None:
    """A build of that version that the driver can carry, the newest CUDA first."""
    fit = [
        (match.groups(), built)
        for built in builds.of(wanted.engine)
        if built.marker.version == wanted.version
        and (match := _VARIANT.fullmatch(built.marker.variant))
        and _carries(driver, int(match[1]))
    ]
    return max(fit, key=lambda pair: tuple(map(int, pair[0])))[1] if fit else None


def verify(folder: Path, wanted: PythonSet, *, tools: Tools, is_deep: bool) -> str:
    """The version that the engine tells; ``EngineFailed`` when it does not work.

    A deep look also loads it, asks its program, and asks torch for a card and for NCCL, which takes
    a while and touches the cards; a quick one reads what is installed.
    """
    told = ""
    for what, words in _probes(folder, wanted, is_deep=is_deep):
        ended = tools.run(words, timeout_s=_PROBE_S, more=_QUIET)
        if not ended.is_ok:
            raise EngineFailed(f"{wanted.engine}: {what} failed: {ended.last_line}")
        told = told or ended.last_line
    if wanted.version not in {told, told.partition("+")[0]}:  # a local part names the CUDA
        raise EngineFailed(f"{folder} holds {wanted.engine} {told} and not {wanted.version}")
    return f"{wanted.engine} {told}"


def _probes(
    folder: Path, wanted: PythonSet, *, is_deep: bool
) -> Iterator[tuple[str, Sequence[str]]]:
    python, name = str(folder / "bin" / "python"), wanted.module
    version = f"import importlib.metadata as m; print(m.version({name!r}))"
    yield "its package", [python, "-I", "-c", version]
    if not is_deep:
        return
    yield "loading it", [python, "-I", "-c", f"import {name}"]
    if wanted.program != "bin/python":
        yield f"{wanted.program} --version", [str(folder / wanted.program), "--version"]
    card = "import sys, torch; sys.exit(None if torch.cuda.is_available() else 'no card')"
    yield "torch's look for a card", [python, "-I", "-c", card]
    yield "NCCL", [python, "-I", "-c", "import torch; print(torch.cuda.nccl.version())"]


def _choose(wanted: PythonSet, release: Release, *, driver: str, tools: Tools) -> tuple[Lock, str]:
    """The newest CUDA that the driver carries, then the newest Python that is here."""
    locks = [lock for lock in _locks(release) if lock.arch == wanted.arch]
    if not locks:
        raise Unsupported(f"{wanted.engine} {wanted.version} has no packages for {wanted.arch}")
    carried = [lock for lock in locks if _carries(driver, lock.cuda[0])]
    if not carried:
        least = min((LEAST_DRIVER.get(lock.cuda[0], "?") for lock in locks), key=_numbers)
        raise Unsupported(
            f"{wanted.engine} {wanted.version} needs a driver of {least} or newer, and "
            f"this machine has {driver}"
        )
    for lock in sorted(carried, key=lambda c: (c.cuda, c.python), reverse=True):
        python = _interpreter(lock.python, tools)
        if python is not None:
            return lock, python
    versions = sorted({f"{lock.python[0]}.{lock.python[1]}" for lock in carried})
    raise Unsupported(
        f"{wanted.engine} {wanted.version} is packaged for Python {', '.join(versions)}, and none "
        "of them is here"
    )


def _locks(release: Release) -> Iterator[Lock]:
    for asset in release.digests:
        if match := _LOCK.fullmatch(asset):
            cuda = (int(match[1]), int(match[2]))
            yield Lock(asset, cuda, (int(match[3]), int(match[4])), match[5])


def _carries(driver: str, cuda_major: int) -> bool:
    least = LEAST_DRIVER.get(cuda_major)
    return least is not None and _numbers(driver) >= _numbers(least)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _interpreter(version: tuple[int, int], tools: Tools) -> str | None:
    if version == sys.version_info[:2]:
        return str(Path(sys.executable).resolve())
    return tools.find(f"python{version[0]}.{version[1]}")


def _fetch(wheels: Path, lock: Lock, release: Release, *, tools: Tools, say: Say) -> dict[str, str]:
    """The lock, the wheels that it names, and pip; their digests."""

    def one(asset: str) -> str:
        target = wheels / asset
        return downloads.fetch(release, asset, target=target, clock=tools.clock, say=say)

    digests = {lock.asset: one(lock.asset)}
    hashes = set(_HASH.findall((wheels / lock.asset).read_text()))
    named = [asset for asset, digest in release.digests.items() if digest in hashes]
    named += [asset for asset in release.digests if _PIP.fullmatch(asset) and asset not in named]
    return digests | {asset: one(asset) for asset in named}


def _build(folder: Path, lock: Path, *, python: str, tools: Tools, say: Say) -> None:
    say(f"making the environment {folder.name}")
    _run([python, "-m", "venv", "--without-pip", str(folder)], tools, timeout_s=_PIP_S)
    say(f"installing the packages of {lock.name}")
    pip = _pip(lock.parent, python, tools)
    options = ["--no-index", "--find-links", str(lock.parent), "--require-hashes", "--no-cache-dir"]
    own = str(folder / "bin" / "python")
    words = [*pip, "--python", own, "install", *options, "-r", str(lock)]
    _run(words, tools, timeout_s=_PIP_S)


def _pip(wheels: Path, python: str, tools: Tools) -> list[str]:
    """Run pip out of the release's own wheel, else the interpreter's; neither needs ensurepip."""
    carried = next((p for p in sorted(wheels.iterdir()) if _PIP.fullmatch(p.name)), None)
    if carried is not None:
        return [python, str(carried / "pip")]
    if tools.run([python, "-m", "pip", "--version"], timeout_s=_ASK_S).is_ok:
        return [python, "-m", "pip"]
    raise Unknown("the release holds no pip wheel, and this machine's Python has no pip")


def _run(words: Sequence[str], tools: Tools, *, timeout_s: float) -> None:
    ended = tools.run(words, timeout_s=timeout_s, more=_QUIET)
    if not ended.is_ok:
        raise EngineFailed(f"{Path(words[0]).name} {words[1]} failed: {ended.last_line}")
