"""Operating system and processor of this machine."""

from __future__ import annotations

import platform
import re
from pathlib import Path

from llmgw.domain.nodes import Host

CPU_FLAGS = (
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512_bf16",
    "amx_tile",
    "asimd",
    "sve",
)
"""Those that decide which builds of an engine run, and how fast."""

_ARCHITECTURES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "i386": "i386",
    "i686": "i386",
    "armv7l": "armhf",
}
_VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)*\b")


def read(*, root: Path = Path("/"), machine: str | None = None) -> Host:
    """All facts; what cannot be read stays empty. ``root`` is where ``etc`` and ``proc`` are."""
    release = os_release(_text(root / "etc/os-release"))
    return Host(
        os_id=release.get("ID", ""),
        os_version=release.get("VERSION_ID", ""),
        os_codename=release.get("VERSION_CODENAME", ""),
        arch=architecture(machine or platform.machine()),
        cpu_flags=cpu_flags(_text(root / "proc/cpuinfo")),
        nvidia_driver=driver_version(_text(root / "proc/driver/nvidia/version")),
    )


def os_release(text: str) -> dict[str, str]:
    """The keys of an ``os-release`` file, values without their quotes."""
    pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, equals, value in pairs if equals}


def architecture(machine: str) -> str:
    """The kernel's name of an architecture in Debian's spelling."""
    return _ARCHITECTURES.get(machine, machine)


def cpu_flags(cpuinfo: str) -> tuple[str, ...]:
    """Which of the flags that matter the first processor has, in a fixed order."""
    for line in cpuinfo.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() in {"flags", "Features"}:
            present = set(value.split())
            return tuple(flag for flag in CPU_FLAGS if flag in present)
    return ()


def driver_version(text: str) -> str:
    """The version of the loaded NVIDIA module, the first dotted number of its first line.

    The file exists only while the module is loaded. The open module writes ``for x86_64`` before
    the number, the other does not.
    """
    first = text.partition("\n")[0]
    found = _VERSION.search(first.partition("Module")[2])
    return found[0] if found else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
