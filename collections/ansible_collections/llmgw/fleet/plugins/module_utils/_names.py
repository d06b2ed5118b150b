# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Says what is a legal node name, and takes addresses apart.

One string is VM name, hostname, node id and certificate name, so it has to fit all of them.
Filters, the test and the modules ask here; nothing here knows Ansible.
"""

from __future__ import annotations

import ipaddress
import re

NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
RESERVED = frozenset({"control-plane", "mirror", "agent", "ca", "all", "localhost"})
"""Names of the product's own certificates, and words that Ansible keeps for itself."""

LOWEST_VMID = 100
HIGHEST_VMID = 999999999


def node_name_problem(name: object) -> str:
    """Why this cannot name a node, as the end of a sentence; empty when it can."""
    if not isinstance(name, str) or not name:
        return "is no text"
    if not NODE_NAME.fullmatch(name):
        return (
            "is no node name: small letters, digits and dashes, at most 63, "
            "with a letter or digit at both ends"
        )
    if name in RESERVED:
        return f"is reserved; the reserved names are {', '.join(sorted(RESERVED))}"
    return ""


def ip_of(address: str) -> str:
    """``10.0.0.145`` of ``10.0.0.145/24``; an address without a prefix stays as it is."""
    try:
        return str(ipaddress.ip_interface(str(address).strip()).ip)
    except ValueError as error:
        raise ValueError(f"{address!r} is no address such as 10.0.0.145/24") from error


def last_octet(address: str) -> int:
    """``145`` of ``10.0.0.145/24``; only an IPv4 address has one."""
    ip = ipaddress.ip_address(ip_of(address))
    if ip.version != 4:
        raise ValueError(f"{address!r} is an IPv6 address and has no last octet")
    return int(ip) & 0xFF


def default_vmid(address: str, base: int = 0) -> int:
    """The number of a VM by the rule of the house: the last octet of its address, plus ``base``."""
    vmid = last_octet(address) + base
    if not LOWEST_VMID <= vmid <= HIGHEST_VMID:
        raise ValueError(
            f"the address {address} makes VMID {vmid}, but Proxmox takes none below "
            f"{LOWEST_VMID} or above {HIGHEST_VMID}: name a vmid, or set vm_vmid_base"
        )
    return vmid


def host_problem(host: object) -> str:
    """Why a certificate cannot carry this host, as the end of a sentence; empty when it can."""
    if not isinstance(host, str) or not host:
        return "is no text"
    if _is_address(host) or (len(host) <= 253 and all(map(_LABEL.fullmatch, host.split(".")))):
        return ""
    return "is neither a host name nor an address; leave out scheme, port and prefix"


_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
