"""What can be set of how an agent tends its node: hardware, model files, engines, their watch.

A part of ``config.settings``, which declares the whole; the agent reads these values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from llmgw.config.declaring import (
    MIB,
    Bytes,
    Seconds,
    SecretReference,
    Url,
    required,
    setting,
)


@dataclass(frozen=True, slots=True)
class FabricAdapters:
    """The adapters of this node on one fast network."""

    name: str = field(metadata=required("The fabric's name, the same on all its nodes."))
    hcas: tuple[str, ...] = field(metadata=required("Adapters, for example `mlx5_0`."))
    rate_gbps: int | None = setting(
        None, "Rate of one adapter; unset means: as the adapter says.", at_least=1
    )


@dataclass(frozen=True, slots=True)
class DiscoverySettings:
    """How the node's hardware is found."""

    nvidia_smi: str = setting("", "Path of `nvidia-smi`; unset means: from PATH.")
    ib_root: str = setting("/sys/class/infiniband", "Folder that lists InfiniBand adapters.")
    prefer_nvml: bool = setting(True, "Ask the NVIDIA library before `nvidia-smi`.")
    skip_gpus: bool = setting(False, "Report no cards at all.")
    kernel_log: str = setting(
        "/dev/kmsg",
        "The kernel's log, in which faults of cards (Xid) are looked for; empty means: nowhere.",
    )


@dataclass(frozen=True, slots=True)
class LlamaCppSettings:
    """The llama.cpp engine on this node."""

    bin: str | tuple[str, ...] = setting(
        "",
        "Path of `llama-server`, or a list of words that starts one; unset means: the one that "
        "was installed in `engines_dir`, else from PATH, else that of `llmgw[local]`.",
    )
    parallel: int = setting(
        4, "Requests that one engine serves at a time.", at_least=1, at_most=256
    )


@dataclass(frozen=True, slots=True)
class SimSettings:
    """The simulated engine on this node."""

    bin: str | tuple[str, ...] = setting(
        "", "Path of `llmgw`, or a list of words that starts it; unset means: this one."
    )


@dataclass(frozen=True, slots=True)
class SglangSettings:
    """The SGLang engine on this node."""

    python: str | tuple[str, ...] = setting(
        "",
        "Path of the Python that has SGLang, or a list of words that starts it; unset means: that "
        "of the one that was installed in `engines_dir`, else `python3` from PATH.",
    )


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """The vLLM engine on this node."""

    bin: str | tuple[str, ...] = setting(
        "",
        "Path of `vllm`, or a list of words that starts it; unset means: the one that was "
        "installed in `engines_dir`, else from PATH.",
    )
    launch_mode: Literal["ray", "mp"] = setting(
        "ray",
        "How ranks on several nodes meet: `ray` starts a Ray cluster for each replica, `mp` needs "
        "no Ray and a vLLM of 0.13 or newer. The same on all nodes.",
    )
    ray_bin: str | tuple[str, ...] = setting(
        "",
        "Path of `ray`, or a list of words that starts it; unset means: beside `vllm`, else from "
        "PATH.",
    )


@dataclass(frozen=True, slots=True)
class EnginesSettings:
    """Where the engines of this node are."""

    llamacpp: LlamaCppSettings = setting(LlamaCppSettings(), "llama.cpp.")
    sglang: SglangSettings = setting(SglangSettings(), "SGLang.")
    sim: SimSettings = setting(SimSettings(), "The simulated engine.")
    vllm: VllmSettings = setting(VllmSettings(), "vLLM.")


@dataclass(frozen=True, slots=True)
class SupervisorSettings:
    """How engine processes are watched."""

    work_dir: str = setting(
        "/var/lib/llmgw-agent", "Folder for state and output of engines; outlives the agent."
    )
    log_lines: int = setting(
        512, "Lines of output kept in memory for each engine.", at_least=16, at_most=100_000
    )
    max_log_bytes: Bytes = setting(
        16 * MIB, "An engine's output file is trimmed at this size.", at_least=65536
    )
    stop_timeout: Seconds = setting(
        60.0, "How long an engine may take to end before it is killed.", at_least=0
    )
    health_interval: Seconds = setting(
        2.0, "Time between two looks at an engine's health.", at_least=0.05
    )
    hang_timeout: Seconds = setting(
        120.0,
        "A ready engine that for this long answers nothing, or leaves its requests lying, and "
        "uses neither processor nor card meanwhile is hung: it is ended, and the control plane "
        "starts another. So is one that loads and is stopped by a signal for as long.",
        at_least=0.5,
    )
    alive_grace: Seconds = setting(
        5.0, "How long a rank without a port must live to count as started.", at_least=0
    )
    rendezvous_timeout: Seconds = setting(
        300.0,
        "How long the ranks of one replica may take to find each other, once the first one has its "
        "weights; more than the 30 s from one word of its download to the next.",
        at_least=1,
    )


@dataclass(frozen=True, slots=True)
class WeightsSettings:
    """How model files are downloaded."""

    hub_url: Url = setting(
        "https://huggingface.co", "Where sources that begin with `hf:` are; a mirror of the hub."
    )
    hub_token: SecretReference | None = setting(
        None, "The hub's token, for repositories that are private or whose licence was accepted."
    )
    keep_free: Bytes = setting(
        1024 * MIB, "A download ends before less than this is free on its filesystem.", at_least=0
    )
    shared: bool = setting(
        False,
        "Other hosts write into `weights_dir` too, though its filesystem does not look shared: "
        "BeeGFS, or a folder that this machine exports. NFS, Lustre, GPFS, CephFS, SMB and FUSE "
        "are known without it.",
    )
