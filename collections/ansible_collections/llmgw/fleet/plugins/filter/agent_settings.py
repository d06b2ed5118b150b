# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""The filter that makes the content of ``agent.yaml``: only what the node cannot find itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

DEFAULT_ADAPTERS = ("mlx5_0", "mlx5_1")

_TLS = {
    "ca": "/etc/llmgw/ca.pem",
    "cert": "/etc/llmgw/agent.pem",
    "key": "/etc/llmgw/agent-key.pem",
}
_AS_THEY_ARE = ("mgmt_addr", "mgmt_interface", "labels", "model_dirs")
_PLACES = {
    "nvidia_smi": ("discovery", "nvidia_smi"),
    "ib_root": ("discovery", "ib_root"),
    "llamacpp_bin": ("engines", "llamacpp", "bin"),
    "vllm_bin": ("engines", "vllm", "bin"),
    "sglang_python": ("engines", "sglang", "python"),
}
"""Where a value of the inventory stands in the file."""

_KNOWN = frozenset(
    {"servers", "tls", "hostname", "node_id", "fabrics", "overrides", *_AS_THEY_ARE, *_PLACES}
)


def agent_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of one agent, in the order in which a person reads them."""
    _refuse_unknown(given)
    servers = _servers(given)
    settings: dict[str, Any] = {"server": servers[0]} if len(servers) == 1 else {"servers": servers}
    if not all(server.startswith("http://") for server in servers):
        settings["tls"] = {**_TLS, **(given.get("tls") or {})}
    if given.get("node_id") and given["node_id"] != given.get("hostname"):
        settings["node_id"] = given["node_id"]
    settings.update({key: given[key] for key in _AS_THEY_ARE if given.get(key)})
    if given.get("fabrics"):
        settings["fabrics"] = _fabrics(given["fabrics"])
    for key, place in _PLACES.items():
        if given.get(key):
            _put(settings, place, given[key])
    return _merged(settings, given.get("overrides") or {})


def _refuse_unknown(given: Mapping[str, Any]) -> None:
    unknown = sorted(set(given) - _KNOWN)
    if unknown:
        raise AnsibleFilterError(
            f"agent_settings: takes no {', '.join(unknown)}; it takes {', '.join(sorted(_KNOWN))}"
        )


def _servers(given: Mapping[str, Any]) -> list[str]:
    listed = given.get("servers") or []
    servers = [listed] if isinstance(listed, str) else [str(server) for server in listed]
    if not servers:
        raise AnsibleFilterError("agent_settings: servers is empty: name the control plane")
    return servers


def _fabrics(listed: Sequence[Any]) -> list[dict[str, Any]]:
    fabrics = [_fabric(item) for item in listed]
    owners: dict[str, str] = {}
    for fabric in fabrics:
        for adapter in fabric["hcas"]:
            owner = owners.setdefault(adapter, fabric["name"])
            if owner != fabric["name"]:
                raise AnsibleFilterError(
                    f"agent_settings: the adapter {adapter} is in the fabrics {owner} and "
                    f"{fabric['name']}: an adapter has one cable"
                )
    names = [fabric["name"] for fabric in fabrics]
    if len(names) != len(set(names)):
        raise AnsibleFilterError("agent_settings: a fabric is named more than once")
    return fabrics


def _fabric(item: Any) -> dict[str, Any]:
    """A fabric from ``name``, ``name:hca1,hca2`` or ``{name, hcas, rate_gbps}``."""
    if isinstance(item, str):
        words = item.replace(":", ",", 1).split(",")
        name, *adapters = [word.strip() for word in words if word.strip()] or [""]
        item = {"name": name, "hcas": adapters}
    if not isinstance(item, Mapping) or not item.get("name"):
        raise AnsibleFilterError(f"agent_settings: {item!r} is no fabric: it has no name")
    fabric = {"name": item["name"], "hcas": list(item.get("hcas") or DEFAULT_ADAPTERS)}
    if item.get("rate_gbps"):
        fabric["rate_gbps"] = int(item["rate_gbps"])
    return fabric


def _put(settings: dict[str, Any], place: Sequence[str], value: Any) -> None:
    *groups, key = place
    for group in groups:
        settings = settings.setdefault(group, {})
    settings[key] = value


def _merged(settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_merge(settings, overrides))


def _merge(settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Groups are joined key by key; anything else is replaced."""
    for key, value in settings.items():
        other = overrides.get(key)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            yield key, _merged(value, other)
        else:
            yield key, overrides.get(key, value)
    yield from ((key, value) for key, value in overrides.items() if key not in settings)


class FilterModule:
    """The filter that makes an agent's settings."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Its name in templates."""
        return {"agent_settings": agent_settings}
