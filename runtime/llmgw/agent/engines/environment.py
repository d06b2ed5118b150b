"""The environment of engine processes: the agent's own, with the shard's cards and networks.

Drivers call it; it reads no environment itself. Ranks meet on the management interface and talk
over the chosen fabric's adapters, and no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from llmgw.agent.discovery import infiniband
from llmgw.agent.engines.contract import Place
from llmgw.config import sources
from llmgw.domain.catalog_rules import GENERATED_ENV
from llmgw.domain.replicas import ShardSpec
from llmgw.errors import DiscoveryFailed

_AGENTS_OWN = frozenset(
    {"LISTEN_FDNAMES", "LISTEN_FDS", "LISTEN_PID", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"}
)
"""What systemd hands to the agent alone."""

_FIRST_PORT = 1


def engine_environment(
    spec: ShardSpec, *, place: Place, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The complete environment of a shard's processes, sorted by name; the profile's words win.

    ``CUDA_VISIBLE_DEVICES`` is always set: empty hides every card from a shard that owns none. CUDA
    would count the fastest card first; cards are numbered here by their place on the bus.
    ``more`` is what one engine needs beside that.
    """
    inherited = sources.without_settings(place.environ)
    made = {name: value for name, value in inherited.items() if not _is_left_behind(name)}
    made["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    made["CUDA_VISIBLE_DEVICES"] = ",".join(str(index) for index in spec.gpu_indices)
    made.update(_fabric(spec, place))
    made.update(more or {})
    made.update(spec.profile.env)
    return dict(sorted(made.items()))


def _is_left_behind(name: str) -> bool:
    """What is the agent's alone, and what only the order may say: another fabric's adapters."""
    return name in _AGENTS_OWN or name in GENERATED_ENV


def _fabric(spec: ShardSpec, place: Place) -> dict[str, str]:
    interface = spec.mgmt_interface or place.interface
    made = {"NCCL_IB_DISABLE": "1"}
    if spec.hcas:
        # NCCL takes a plain name as a prefix: mlx5_1 would let in mlx5_10 to mlx5_19 as well.
        made = {"NCCL_IB_DISABLE": "0", "NCCL_IB_HCA": "=" + ",".join(spec.hcas)}
        made["UCX_NET_DEVICES"] = ",".join(_ucx_devices(spec.hcas, place.ib_root))
    elif interface:
        made["UCX_NET_DEVICES"] = interface
    if interface:
        made["NCCL_SOCKET_IFNAME"] = "=" + interface
        made["GLOO_SOCKET_IFNAME"] = interface
    return made


def _ucx_devices(hcas: Sequence[str], root: Path | None) -> list[str]:
    """UCX names an adapter with its port; of two ports the one that carries traffic."""
    try:
        found = () if root is None else infiniband.read(root)
    except DiscoveryFailed:
        found = ()
    active = {hca.name: [port.num for port in hca.ports if port.is_active] for hca in found}
    return [f"{name}:{port}" for name in hcas for port in (active.get(name) or [_FIRST_PORT])]
