# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Makes wheelhouses: one archive with every wheel that a host of one kind needs.

A host installs from it without any network. What an archive holds follows from the checkout, its
pinned versions, the host's Python and the extras; a digest of these is the archive's identity, so
an unchanged checkout makes no work here and no change there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.llmgw.fleet.plugins.module_utils import _wheel_archive, _wheels
from ansible_collections.llmgw.fleet.plugins.module_utils._wheels import Target

_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
_KEPT = 3
_PIP_TIMEOUT_S = 900
_LOCK_TIMEOUT_S = 2 * _PIP_TIMEOUT_S
_ROUNDS = 5
"""How often pip is asked for what an answer turned out to require."""

_HOT_EXTRAS = frozenset({"gateway", "server"})
"""Hosts with one of these run gateways, the part that is worth compiling."""

_COMPILED_FOR = """
import os, platform, shutil, sys, sysconfig
compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
headers = os.path.join(sysconfig.get_path("include"), "Python.h")
if shutil.which(compiler) and os.path.isfile(headers):
    print(f"cp{sys.version_info[0]}{sys.version_info[1]}-manylinux-{platform.machine()}")
"""
"""Asks a Python for which hosts it could compile: a tag, or nothing without a compiler."""


class WheelhouseError(Exception):
    """An archive cannot be made or used; the text says why and what to do."""


@dataclass(frozen=True)
class Wheelhouse:
    """An archive on the controller."""

    path: Path
    version: str
    identity: str
    is_made: bool = False
    """Whether it was made just now."""
    is_compiled: bool = False
    """Whether the gateway in it is compiled."""


@dataclass(frozen=True)
class Workshop:
    """Makes archives from one checkout with the pip of one Python."""

    source: Path
    dest: Path
    python: str
    compiles: bool = False
    """Whether gateways are compiled for hosts with this Python and processor."""

    def wheelhouse(self, target: Target, *, is_trial: bool = False) -> Wheelhouse:
        """The archive for these hosts; made unless it is there, and only named in a trial."""
        version = _version(self.source)
        is_compiled = self.compiles and self._can_compile(target)
        identity = _identity(self.source, target, is_compiled=is_compiled)
        path = self.dest / f"llmgw-{version}-{target.label}-{identity[:12]}.tar"
        if is_trial or path.is_file():
            is_made = not path.is_file()
            return Wheelhouse(path, version, identity, is_made=is_made, is_compiled=is_compiled)
        self.dest.mkdir(parents=True, exist_ok=True)
        with _alone(self.dest / ".lock"):
            if not path.is_file():  # else another host of this play had it made meanwhile
                about = {
                    "version": version,
                    "identity": identity,
                    "tag": target.tag,
                    "extras": list(target.extras),
                    "compiled": is_compiled,
                }
                self._make(path, target, about)
                self._forget_old(target)
        return Wheelhouse(path, version, identity, is_made=True, is_compiled=is_compiled)

    def _can_compile(self, target: Target) -> bool:
        if not _HOT_EXTRAS.intersection(target.extras):
            return False
        asked = self._run("-c", _COMPILED_FOR, env=None)
        return asked.returncode == 0 and asked.stdout.strip() == target.tag

    def _make(self, path: Path, target: Target, about: _wheel_archive.About) -> None:
        with tempfile.TemporaryDirectory(prefix="llmgw-wheels-") as folder:
            build = self._compiled_wheel if about["compiled"] else self._own_wheel
            own = build(Path(folder) / "own")
            wheels = self._download(own, target=target, into=Path(folder) / "wheels")
            partial = path.with_suffix(".partial")
            try:
                _wheel_archive.pack(partial, wheels=wheels, about=about)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)

    def _compiled_wheel(self, into: Path) -> Path:
        """Built in a copy: what is compiled lies beside its source, and would hide it there."""
        copy = into.with_name("checkout")
        for file in _ingredients(self.source):
            place = copy / file.relative_to(self.source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, place)
        try:
            return self._own_wheel(into, source=copy, env={"HATCH_BUILD_HOOK_ENABLE_MYPYC": "1"})
        except WheelhouseError as error:
            raise WheelhouseError(
                f"the gateway was not compiled ({error}); without that it runs as well, at more "
                "processor time a request: set compiled (runtime_compiled in a playbook) to false"
            ) from error

    def _own_wheel(
        self, into: Path, *, source: Path | None = None, env: dict[str, str] | None = None
    ) -> Path:
        words = ("wheel", "--no-deps", "--wheel-dir", str(into), str(source or self.source))
        self._pip(*words, env=env)
        built = sorted(into.glob("llmgw-*.whl"))
        if len(built) != 1:
            names = ", ".join(file.name for file in built) or "nothing"
            raise WheelhouseError(f"{self.source} was built into {names} and not into one wheel")
        return built[0]

    def _download(self, own: Path, *, target: Target, into: Path) -> list[Path]:
        """Every wheel for the target.

        Where a package needs another only on some Pythons, pip answers for the one that runs it;
        what the target's answer adds is asked for by name, until nothing is missing.
        """
        flags = ["--only-binary=:all:", "--dest", str(into), *_wheels.pip_flags(target)]
        flags += self._constraint_flags(target, into.with_name("constraints.txt"))
        extras = f"[{','.join(target.extras)}]" if target.extras else ""
        wanted = [f"llmgw{extras} @ {own.as_uri()}", "pip"]
        for _round in range(_ROUNDS):
            self._pip("download", *flags, *wanted)
            wheels = sorted(into.glob("*.whl"))
            missing = _wheels.missing(wheels, target)
            if not missing:
                return wheels
            wanted += sorted(missing)
        raise WheelhouseError(
            f"pip brings everything but {', '.join(sorted(missing))} for {target.tag}: see that "
            "the package index has wheels of it for that Python and processor"
        )

    def _constraint_flags(self, target: Target, file: Path) -> list[str]:
        written = _constraints(self.source)
        if not written.is_file():
            return []
        file.write_text(_wheels.pinned(written.read_text(encoding="utf-8"), target))
        return ["--constraint", str(file)]

    def _pip(self, *words: str, env: dict[str, str] | None = None) -> None:
        done = self._run("-m", "pip", "--quiet", "--disable-pip-version-check", *words, env=env)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if not line.startswith("WARNING")]
            raise WheelhouseError(
                f"{self.python} -m pip {words[0]} failed on the controller: "
                f"{' '.join(said[-8:]) or f'exit code {done.returncode}'}"
            )

    def _run(self, *words: str, env: dict[str, str] | None) -> subprocess.CompletedProcess[str]:
        command = [self.python, *words]
        try:
            return subprocess.run(  # pylint: disable=ansible-bad-function
                command,
                check=False,
                capture_output=True,
                text=True,
                timeout=_PIP_TIMEOUT_S,
                env={**os.environ, **(env or {})},
            )
        except subprocess.TimeoutExpired as error:
            raise WheelhouseError(
                f"{' '.join([self.python, *words[:2]])} did not end within {_PIP_TIMEOUT_S} s on "
                "the controller: see that the package index can be reached"
            ) from error
        except OSError as error:
            raise WheelhouseError(
                f"{self.python} cannot be run on the controller: {error}"
            ) from error

    def _forget_old(self, target: Target) -> None:
        archives = self.dest.glob(f"llmgw-*-{target.label}-*.tar")
        for old in sorted(archives, key=lambda file: file.stat().st_mtime)[:-_KEPT]:
            old.unlink()


def found(bundle: Path, target: Target) -> Wheelhouse:
    """The archive for these hosts that was made elsewhere: this file, or the one in this folder."""
    pattern = f"llmgw-*-{target.label}-*.tar"
    archives = [bundle] if bundle.is_file() else sorted(bundle.glob(pattern))
    if len(archives) != 1:
        raise WheelhouseError(
            f"{bundle} has {len(archives) or 'no'} {pattern}: "
            "it must have one, made by the same role where there is a network"
        )
    (path,) = archives
    try:
        about = _wheel_archive.about(path)
    except ValueError as error:
        raise WheelhouseError(str(error)) from error
    if _wheels.target(about["tag"], about["extras"]) != target:
        raise WheelhouseError(
            f"{path} is for {about['tag']} with {'+'.join(about['extras']) or 'base'}, "
            f"and this host needs {target.label}"
        )
    is_compiled = bool(about.get("compiled"))  # archives of older releases do not say
    return Wheelhouse(path, about["version"], about["identity"], is_compiled=is_compiled)


def _version(source: Path) -> str:
    file = source / "runtime" / "llmgw" / "__init__.py"
    if not file.is_file():
        raise WheelhouseError(f"{source} is no checkout of llmgw: there is no {file}")
    version = _VERSION.search(file.read_text(encoding="utf-8"))
    if version is None:
        raise WheelhouseError(f"{file} names no version")
    return version[1]


def _identity(source: Path, target: Target, *, is_compiled: bool) -> str:
    digest = hashlib.sha256(target.label.encode())
    if is_compiled:
        digest.update(b" compiled")
    for file in _ingredients(source):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"\n{file.relative_to(source)} {content}".encode())
    return digest.hexdigest()


def _ingredients(source: Path) -> Iterator[Path]:
    """Every file that a wheelhouse is made from, in order."""
    named = [source / name for name in ("LICENSE", "README.md", "pyproject.toml")]
    yield from (file for file in [*named, _constraints(source)] if file.is_file())
    for file in sorted((source / "runtime" / "llmgw").rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file


def _constraints(source: Path) -> Path:
    return source / "runtime" / "constraints.txt"


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Let one process in at a time: the hosts of a play are served side by side."""
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    with lock.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise WheelhouseError(
                        f"another process has held {lock} for {_LOCK_TIMEOUT_S} s: end it, if it "
                        "is no playbook that still builds"
                    ) from None
                time.sleep(0.5)
        yield
