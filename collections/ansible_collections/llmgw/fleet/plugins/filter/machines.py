# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that say from a machine's facts which builds and packages it takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

_ARCHITECTURES = {
    "aarch64": "aarch64",
    "amd64": "x86_64",
    "arm64": "aarch64",
    "x86_64": "x86_64",
}
_FAMILY_OF_OS = {"debian": "deb", "redhat": "rpm", "suse": "rpm"}
_FAMILY_OF_TOOL = {
    "apt": "deb",
    "dnf": "rpm",
    "dnf5": "rpm",
    "yum": "rpm",
    "zypper": "rpm",
}
_VERSION = re.compile(r"(\d+)\.(\d+)(\.\S*)?")


def wheel_tag(facts: Mapping[str, Any], python: str = "") -> str:
    """The folder of a bundle that holds the wheels for this machine."""
    machine = str(facts.get("architecture") or "")
    architecture = _ARCHITECTURES.get(machine.lower())
    if architecture is None:
        known = ", ".join(sorted(set(_ARCHITECTURES.values())))
        raise AnsibleFilterError(
            f"wheel_tag: there are wheels for {known}, not for {machine or 'a machine that is not'}"
            f"{'' if machine else ' known: gather its facts first'}"
        )
    major, minor = _python(facts, python)
    return f"cp{major}{minor}-manylinux-{architecture}"


def distro_family(facts: Mapping[str, Any]) -> str:
    """How packages are named and installed: ``deb``, ``rpm``, or nothing that we know."""
    by_system = _FAMILY_OF_OS.get(str(facts.get("os_family") or "").lower())
    return by_system or _FAMILY_OF_TOOL.get(str(facts.get("pkg_mgr") or "").lower(), "")


def _python(facts: Mapping[str, Any], chosen: str) -> tuple[str, str]:
    found = _VERSION.fullmatch(str(chosen or facts.get("python_version") or "").strip())
    if found is None:
        raise AnsibleFilterError(
            f"wheel_tag: {chosen!r} is no Python version such as 3.12"
            if chosen
            else "wheel_tag: the facts name no Python version: gather them first, or give python"
        )
    return found[1], found[2]


class FilterModule:
    """Filters on facts."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Their names in templates."""
        return {"distro_family": distro_family, "wheel_tag": wheel_tag}
