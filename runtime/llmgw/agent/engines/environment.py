"""The environment of engine processes: the agent's own, with the shard's cards and networks.

Drivers call it; it reads no environment itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmgw.domain.replicas import ShardSpec

_AGENTS_OWN = frozenset(
    {"LISTEN_FDNAMES", "LISTEN_FDS", "LISTEN_PID", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"}
)
"""What systemd hands to the agent alone."""

_SETTINGS_PREFIX = "LLMGW_"
"""The agent's settings, which may hold secrets; an engine is told by flags."""


def engine_environment(spec: ShardSpec, *, inherited: Mapping[str, str]) -> dict[str, str]:
    """The complete environment of a shard's processes, sorted by name; the profile's words win.

    ``CUDA_VISIBLE_DEVICES`` is always set: empty hides every card from a shard that owns none.
    """
    kept = {name: value for name, value in inherited.items() if not _is_agents_own(name)}
    made = {**kept, "CUDA_VISIBLE_DEVICES": ",".join(str(index) for index in spec.gpu_indices)}
    made.update(_fabric(spec))
    made.update(spec.profile.env)
    return dict(sorted(made.items()))


def _is_agents_own(name: str) -> bool:
    return name in _AGENTS_OWN or name.startswith(_SETTINGS_PREFIX)


def _fabric(spec: ShardSpec) -> dict[str, str]:
    made = {"NCCL_IB_DISABLE": "1"}
    if spec.hcas:
        made = {"NCCL_IB_DISABLE": "0", "NCCL_IB_HCA": ",".join(spec.hcas)}
    if spec.mgmt_interface:
        made["NCCL_SOCKET_IFNAME"] = spec.mgmt_interface
        made["GLOO_SOCKET_IFNAME"] = spec.mgmt_interface
    return made
