# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""The filters that make the content of ``agent.yaml``, and say why they cannot.

Only what the node cannot find itself is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.llmgw.fleet.plugins.module_utils import _names

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
    mistakes = agent_mistakes(given)
    if mistakes:
        raise AnsibleFilterError(f"agent_settings: {'; '.join(mistakes)}")
    servers = _servers(given)
    settings: dict[str, Any] = {"server": servers[0]} if len(servers) == 1 else {"servers": servers}
    if not all(server.startswith("http://") for server in servers):
        settings["tls"] = {**_TLS, **(given.get("tls") or {})}
    if given.get("node_id") and given["node_id"] != given.get("hostname"):
        settings["node_id"] = given["node_id"]
    settings.update({key: given[key] for key in _AS_THEY_ARE if given.get(key)})
    if given.get("fabrics"):
        settings["fabrics"] = [_fabric(item) for item in _listed(given["fabrics"])]
    for key, place in _PLACES.items():
        if given.get(key):
            _put(settings, place, given[key])
    return _merged(settings, given.get("overrides") or {})


def agent_mistakes(given: Mapping[str, Any]) -> list[str]:
    """Everything that keeps settings from being made of this."""
    return list(_mistakes(given))


def _mistakes(given: Mapping[str, Any]) -> Iterator[str]:
    unknown = sorted(set(given) - _KNOWN)
    if unknown:
        yield f"there is no setting {', '.join(unknown)}, only {', '.join(sorted(_KNOWN))}"
    wrong_name = _names.node_name_problem(given["node_id"]) if given.get("node_id") else ""
    if wrong_name:
        yield f"{given['node_id']!r} {wrong_name}"
    if str(given.get("node_id") or "").startswith("gateway-"):
        yield f"{given['node_id']!r} is how a gateway's certificate is called: take another name"
    if not _servers(given):
        yield (
            "its agent has no control plane to dial: set fleet_servers, or give the hosts of "
            "control_host an ansible_host"
        )
    listed = _listed(given.get("fabrics") or [])
    wrong = [problem for item in listed if (problem := _fabric_problem(item))]
    yield from wrong
    if not wrong:
        yield from _contradictions([_fabric(item) for item in listed])


def _servers(given: Mapping[str, Any]) -> list[str]:
    return [str(server) for server in _listed(given.get("servers") or [])]


def _listed(value: Any) -> list[Any]:
    """What a command line or an inventory gives for a list of one."""
    return [value] if isinstance(value, (str, Mapping)) else list(value)


def _fabric_problem(item: Any) -> str:
    words = _words_of(item) if isinstance(item, str) else item
    if not isinstance(words, Mapping) or not words.get("name"):
        return f"{item!r} is no fabric: it has no name"
    if not str(words.get("rate_gbps") or 0).isdigit():
        return f"the fabric {words['name']} has the rate_gbps {words['rate_gbps']!r}: give a number"
    return ""


def _contradictions(fabrics: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    owners: dict[str, str] = {}
    for fabric in fabrics:
        for adapter in fabric["hcas"]:
            owner = owners.setdefault(adapter, fabric["name"])
            if owner != fabric["name"]:
                yield (
                    f"the adapter {adapter} is in the fabrics {owner} and {fabric['name']}: an "
                    "adapter has one cable"
                )
    names = [fabric["name"] for fabric in fabrics]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"the fabric {name} is named more than once"


def _fabric(item: Any) -> dict[str, Any]:
    """A fabric from ``name``, ``name:hca1,hca2`` or ``{name, hcas, rate_gbps}``."""
    words = _words_of(item) if isinstance(item, str) else item
    fabric = {"name": words["name"], "hcas": list(words.get("hcas") or DEFAULT_ADAPTERS)}
    if words.get("rate_gbps"):
        fabric["rate_gbps"] = int(words["rate_gbps"])
    return fabric


def _words_of(text: str) -> dict[str, Any]:
    words = text.replace(":", ",", 1).split(",")
    name, *adapters = [word.strip() for word in words if word.strip()] or [""]
    return {"name": name, "hcas": adapters}


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
    """Filters on what the inventory says of an agent."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Their names in templates."""
        return {"agent_mistakes": agent_mistakes, "agent_settings": agent_settings}
