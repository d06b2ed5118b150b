# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that take addresses apart and list the hosts of a certificate."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.llmgw.fleet.plugins.module_utils import _names


def ip_of(address: str) -> str:
    """The address without its prefix length."""
    return _translated(_names.ip_of, address)


def last_octet(address: str) -> int:
    """The last number of an IPv4 address."""
    return _translated(_names.last_octet, address)


def default_vmid(address: str, base: int = 0) -> int:
    """The number of a VM that has this address."""
    return _translated(_names.default_vmid, address, int(base))


def cert_hosts(facts: Mapping[str, Any], extra: str | Iterable[str] = ()) -> list[str]:
    """Every name and address under which a machine may be dialled."""
    listed = extra.split(",") if isinstance(extra, str) else extra
    hosts = {"localhost", "127.0.0.1"}
    hosts |= {str(facts[key]) for key in ("hostname", "fqdn") if facts.get(key)}
    for family in ("all_ipv4_addresses", "all_ipv6_addresses"):
        hosts |= {plain for plain in map(_dialled, facts.get(family) or ()) if plain}
    hosts |= {str(host).strip() for host in listed if str(host).strip()}
    wrong = [f"{host!r} {problem}" for host in hosts if (problem := _names.host_problem(host))]
    if wrong:
        raise AnsibleFilterError(f"cert_hosts: {'; '.join(sorted(wrong))}")
    return sorted(hosts)


def _dialled(address: str) -> str:
    """The address as others write it; empty for one that nobody can dial from elsewhere."""
    ip = ipaddress.ip_address(str(address).partition("%")[0])
    return "" if ip.is_loopback or ip.is_link_local or ip.is_unspecified else str(ip)


def _translated(function: Callable[..., Any], *words: Any) -> Any:
    try:
        return function(*words)
    except ValueError as error:
        raise AnsibleFilterError(f"{function.__name__}: {error}") from error


class FilterModule:
    """Filters on addresses."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Their names in templates."""
        return {
            "cert_hosts": cert_hosts,
            "default_vmid": default_vmid,
            "ip_of": ip_of,
            "last_octet": last_octet,
        }
