"""Operating system and processor of this machine."""

from __future__ import annotations

import platform
import re
from pathlib import Path

from llmgw.agent.discovery import kernel_files, numa
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

_NO_AVX2 = (
    "the processor offers no AVX2, so engines compute several times slower on it; a virtual "
    "machine needs the CPU type 'host'"
)


def read(*, root: Path = Path("/"), machine: str | None = None) -> Host:
    """All facts; what cannot be read stays empty. ``root`` is where ``etc`` and ``proc`` are."""
    release = os_release(kernel_files.text(root / "etc/os-release"))
    cpuinfo = kernel_files.text(root / "proc/cpuinfo")
    return Host(
        os_id=release.get("ID", ""),
        os_version=release.get("VERSION_ID", ""),
        os_codename=release.get("VERSION_CODENAME", ""),
        arch=architecture(machine or platform.machine()),
        cpu_flags=cpu_flags(cpuinfo),
        nvidia_driver=driver_version(kernel_files.text(root / "proc/driver/nvidia/version")),
        cpu_model=cpu_model(cpuinfo),
        cpu_threads=cpu_threads(cpuinfo),
        numa_nodes=numa.read(root),
    )


def warnings(host: Host) -> tuple[str, ...]:
    """What an operator should know of the processor; flags that could not be read say nothing."""
    lacks_avx2 = host.arch == "amd64" and host.cpu_threads and "avx2" not in host.cpu_flags
    return (_NO_AVX2,) if lacks_avx2 else ()


def os_release(text: str) -> dict[str, str]:
    """The keys of an ``os-release`` file, values without their quotes."""
    pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, equals, value in pairs if equals}


def architecture(machine: str) -> str:
    """The kernel's name of an architecture in Debian's spelling."""
    return _ARCHITECTURES.get(machine, machine)


def cpu_flags(cpuinfo: str) -> tuple[str, ...]:
    """Which of the flags that matter the first processor has, in a fixed order."""
    present = set(_first(cpuinfo, "flags", "Features").split())
    return tuple(flag for flag in CPU_FLAGS if flag in present)


def cpu_model(cpuinfo: str) -> str:
    """What the first processor is called; kernels for ARM do not say."""
    return _first(cpuinfo, "model name")


def cpu_threads(cpuinfo: str) -> int | None:
    """How many processors the kernel has, threads of one core each for themselves."""
    keys = (line.partition(":")[0].strip() for line in cpuinfo.splitlines())
    return sum(key == "processor" for key in keys) or None


def driver_version(text: str) -> str:
    """The version of the loaded NVIDIA module, the first dotted number of its first line.

    The file exists only while the module is loaded. The open module writes ``for x86_64`` before
    the number, the other does not.
    """
    first = text.partition("\n")[0]
    found = _VERSION.search(first.partition("Module")[2])
    return found[0] if found else ""


def _first(cpuinfo: str, *keys: str) -> str:
    """The value of the first line with one of these keys."""
    for line in cpuinfo.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() in keys:
            return value.strip()
    return ""
