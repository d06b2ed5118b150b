# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Says which wheels a host takes, from its tag and from what the wheels themselves require.

The wheelhouse asks here; the host may have another Python than the one that runs this.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

try:
    from packaging.requirements import Requirement
except ImportError:  # a host without it never makes a wheelhouse
    Requirement = None

HAS_PACKAGING = Requirement is not None

_TAG = re.compile(r"cp(3)(\d+)-manylinux-(x86_64|aarch64)")
_OLDEST_GLIBC = 5
_NEWEST_GLIBC = 34
"""Hosts have glibc 2.34 or newer, so wheels that ask for more are not taken."""

_REQUIRES = "Requires-Dist:"


@dataclass(frozen=True)
class Target:
    """The hosts for which wheels are gathered."""

    major: str
    minor: str
    machine: str
    extras: tuple[str, ...] = ()

    @property
    def tag(self) -> str:
        """Its wheels' tag, as in ``cp312-manylinux-x86_64``."""
        return f"cp{self.major}{self.minor}-manylinux-{self.machine}"

    @property
    def label(self) -> str:
        """How file names tell it."""
        return f"{self.tag}-{'+'.join(self.extras) or 'base'}"

    @property
    def python(self) -> str:
        """Its Python, as in ``3.12``."""
        return f"{self.major}.{self.minor}"


def target(tag: str, extras: Sequence[str] = ()) -> Target:
    """The hosts of this tag; raises ValueError for any other word."""
    found = _TAG.fullmatch(tag)
    if found is None:
        raise ValueError(f"{tag!r} is no tag such as cp312-manylinux-x86_64")
    return Target(*found.groups(), extras=tuple(sorted(set(extras))))


def pip_flags(wanted: Target) -> list[str]:
    """What tells pip to bring wheels for the target instead of for itself."""
    versions = range(_NEWEST_GLIBC, _OLDEST_GLIBC - 1, -1)
    platforms = [f"manylinux_2_{version}_{wanted.machine}" for version in versions]
    platforms.append(f"linux_{wanted.machine}")  # as a wheel is that was compiled here
    platforms += [f"manylinux{year}_{wanted.machine}" for year in ("2014", "2010", "1")]
    flags = ["--python-version", wanted.python, "--implementation", "cp"]
    for abi in (f"cp{wanted.major}{wanted.minor}", "abi3", "none"):
        flags += ["--abi", abi]
    for platform in platforms:
        flags += ["--platform", platform]
    return flags


def pinned(constraints: str, wanted: Target) -> str:
    """The constraints that hold on the target; pip would ask its own Python which do."""
    lines = [line for line in constraints.splitlines() if line.strip() and line[0] != "#"]
    holding = [line for line in map(Requirement, lines) if _applies(line, wanted, ())]
    return "".join(f"{line.name}{line.specifier}\n" for line in holding)


def missing(wheels: Sequence[Path], wanted: Target) -> set[str]:
    """What these wheels require on the target and none of them is."""
    present = {name_of(wheel) for wheel in wheels}
    required = {name_of(wheel): list(_requirements(wheel)) for wheel in wheels}
    extras = {"llmgw": set(wanted.extras)}
    lacking: set[str] = set()
    for _wheel in wheels:  # an extra of one may ask for an extra of another, itself included
        for name, requirements in required.items():
            for requirement in requirements:
                if not _applies(requirement, wanted, extras.get(name, ())):
                    continue
                extras.setdefault(_normal(requirement.name), set()).update(requirement.extras)
                if _normal(requirement.name) not in present:
                    lacking.add(f"{requirement.name}{requirement.specifier}")
    return lacking


def name_of(wheel: Path) -> str:
    """The package that a wheel holds."""
    return _normal(wheel.name.split("-", 1)[0])


def version_of(wheel: Path) -> str:
    """The version that a wheel holds."""
    return wheel.name.split("-", 2)[1]


def _applies(requirement: Requirement, wanted: Target, extras: Collection[str]) -> bool:
    if requirement.marker is None:
        return True
    environment = _environment(wanted)
    return any(
        requirement.marker.evaluate({**environment, "extra": extra}) for extra in ("", *extras)
    )


def _environment(wanted: Target) -> Mapping[str, str]:
    return {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": wanted.machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{wanted.python}.0",
        "python_version": wanted.python,
        "sys_platform": "linux",
    }


def _requirements(wheel: Path) -> Iterator[Requirement]:
    for line in _head(wheel).splitlines():
        if line.startswith(_REQUIRES):
            yield Requirement(line[len(_REQUIRES) :].strip())


def _head(wheel: Path) -> str:
    """What a wheel says of itself, without its long description."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            (metadata,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
            return archive.read(metadata).decode().split("\n\n", 1)[0]
    except (zipfile.BadZipFile, ValueError) as error:
        raise ValueError(f"{wheel.name}, which pip brought, is no wheel: {error}") from error


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
