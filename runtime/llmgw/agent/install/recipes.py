"""Which build of an engine a machine needs: pure, from the engine's name and what the machine is.

llama.cpp comes as release archives, vLLM and SGLang as locked sets of Python packages. The
distribution's name decides nothing: the libraries do, and the verification finds them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw.domain.nodes import Host
from llmgw.errors import Invalid, Unsupported

CUDA = "cuda-12.8"
"""The toolkit of llama.cpp's release builds; its libraries come beside, so a driver suffices."""

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_RELEASE_ARCH = {"amd64": "x64", "arm64": "arm64"}
_WHEEL_ARCH = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True, slots=True)
class Build:
    """One build made of archives: what to fetch, what it needs, what to look for in it."""

    engine: str
    version: str
    variant: str
    repo: str
    assets: tuple[str, ...]
    program: str
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Packages of the operating system by family, ``deb`` or ``rpm``."""
    wanted_cpu_flags: tuple[str, ...] = ()
    """Without these it runs, and several times slower."""


@dataclass(frozen=True, slots=True)
class PythonSet:
    """One engine made of Python packages: what shows that it works."""

    engine: str
    version: str
    arch: str
    module: str
    program: str
    """What starts it, below the folder of the environment."""


Recipe = Build | PythonSet

ENGINES = ("llamacpp", "sglang", "vllm")
"""The engines that can be installed."""


def choose(engine: str, version: str, host: Host) -> Recipe:
    """The recipe for this machine; ``Unsupported`` when there is none, ``Invalid`` for no name."""
    for word in (engine, version):
        if not _PART.fullmatch(word):
            raise Invalid(f"{word!r} is no name of an engine and no version")
    match engine:
        case "llamacpp":
            return _llamacpp(version, host)
        case "vllm":
            return _python_set(engine, version, host, program="bin/vllm")
        case "sglang":
            return _python_set(engine, version, host, program="bin/python")
        case _:
            raise Unsupported(
                f"there is no recipe for {engine}, only for {', '.join(ENGINES)}; install it by "
                "hand and name its program in agent.yaml"
            )


def slow_because(build: Build, host: Host) -> str:
    """What the processor lacks and what that means; empty when it lacks nothing or is unknown."""
    missing = [flag for flag in build.wanted_cpu_flags if flag not in host.cpu_flags]
    if not missing or not host.cpu_flags:
        return ""
    return (
        f"the processor shows no {', '.join(missing).upper()}, so {build.engine} runs several "
        "times slower; give a virtual machine the CPU type host"
    )


def _llamacpp(version: str, host: Host) -> Build:
    arch = _RELEASE_ARCH.get(host.arch)
    if arch is None:
        raise Unsupported(
            f"llama.cpp has no Linux build for {host.arch or 'an unknown architecture'}; build it "
            "and name it in agent.yaml"
        )
    is_cuda = bool(host.nvidia_driver) and arch == "x64"
    names = (f"bin-ubuntu-{CUDA}-x64",) if is_cuda else (f"bin-ubuntu-{arch}",)
    assets = tuple(f"llama-{version}-{name}.tar.gz" for name in names)
    if is_cuda:
        assets += tuple(f"cudart-{asset}" for asset in assets)
    return Build(
        engine="llamacpp",
        version=version,
        variant=CUDA if is_cuda else "cpu",
        repo="ggml-org/llama.cpp",
        assets=assets,
        program="llama-server",
        packages={"deb": ("libgomp1",), "rpm": ("libgomp",)},
        wanted_cpu_flags=("avx2",) if arch == "x64" else (),
    )


def _python_set(engine: str, version: str, host: Host, *, program: str) -> PythonSet:
    arch = _WHEEL_ARCH.get(host.arch)
    if arch is None:
        raise Unsupported(f"{engine} has no packages for {host.arch or 'an unknown architecture'}")
    if not host.nvidia_driver:
        raise Unsupported(f"{engine} runs on NVIDIA cards, and no NVIDIA driver is loaded here")
    return PythonSet(engine=engine, version=version, arch=arch, module=engine, program=program)
