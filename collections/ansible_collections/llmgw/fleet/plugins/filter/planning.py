# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""The filter that says of each new node where it will be found, and what is wrong with its name."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.llmgw.fleet.plugins.module_utils import _names

_TRAILING_DIGITS = re.compile(r"(\d+)$")


def node_plans(
    names: str | Iterable[Any],
    hostvars: Mapping[str, Mapping[str, Any]],
    ip: str = "",
    base: str = "",
) -> list[dict[str, Any]]:
    """Name, address with prefix, host to connect to and mistakes, of each name."""
    listed = names.split(",") if isinstance(names, str) else list(names)
    words = [word.strip() if isinstance(word, str) else word for word in listed]
    wanted = [word for word in words if word not in {"", None}]
    is_alone = len(wanted) == 1
    plans = [
        _plan(
            name,
            hostvars[name] if isinstance(name, str) and name in hostvars else {},
            ip=ip if is_alone else "",
            base=base,
            mistakes=[] if is_alone or not ip else [_ONE_ADDRESS],
        )
        for name in dict.fromkeys(wanted)
    ]
    return [{**plan, "mistakes": [*plan["mistakes"], *_clashes(plan, plans)]} for plan in plans]


_ONE_ADDRESS = "ip is the address of one node: give node_ip to each host, or fleet_node_ip_base"


def _plan(
    name: Any, known: Mapping[str, Any], *, ip: str, base: str, mistakes: list[str]
) -> dict[str, Any]:
    mistakes = [*mistakes]
    wrong = _names.node_name_problem(name)
    if wrong:
        mistakes.append(f"{name!r} {wrong}")
    address = str(ip or known.get("node_ip") or "")
    if not address and base and not wrong:
        address = _counted(str(name), str(base), mistakes)
    host = str(known.get("ansible_host") or "")
    if address:
        host = _host_of(address, mistakes) or host
    elif not host and not mistakes:
        mistakes.append(
            f"{name!r} has no address: give -e ip=10.0.0.145/24, or node_ip to the host, or "
            "fleet_node_ip_base"
        )
    return {"name": name, "address": address, "host": host, "mistakes": mistakes}


def _clashes(plan: Mapping[str, Any], plans: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One sentence for each earlier node that would have the same host."""
    for other in plans:
        if other["name"] == plan["name"]:
            return
        if plan["host"] and other["host"] == plan["host"]:
            yield (
                f"{plan['name']!r} and {other['name']!r} would both be {plan['host']}: give one of "
                "them another node_ip"
            )


def _counted(name: str, base: str, mistakes: list[str]) -> str:
    """``10.0.0.145/24`` of ``node05`` and ``10.0.0.140/24``."""
    found = _TRAILING_DIGITS.search(name)
    if found is None:
        mistakes.append(f"{name!r} ends in no number to add to fleet_node_ip_base: give its ip")
        return ""
    try:
        first = ipaddress.ip_interface(base)
        counted = first.ip + int(found[1])
    except ValueError as error:
        mistakes.append(f"fleet_node_ip_base {base!r}: {error}")
        return ""
    if counted not in first.network:
        mistakes.append(f"{name!r} would be {counted}, outside of {first.network}: give its ip")
        return ""
    return f"{counted}/{first.network.prefixlen}"


def _host_of(address: str, mistakes: list[str]) -> str:
    try:
        return _names.ip_of(address)
    except ValueError as error:
        mistakes.append(str(error))
        return ""


class FilterModule:
    """The filter that plans nodes."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Its name in templates."""
        return {"node_plans": node_plans}
