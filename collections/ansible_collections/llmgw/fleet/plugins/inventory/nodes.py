# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""The nodes of a fleet as hosts, as the control plane knows them at this moment."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nodes
short_description: The nodes that a control plane knows
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Asks a control plane for its nodes and makes each a host of the group C(node_host), named by its
    node id.
  - Groups are made of what nodes report. These are C(state_STATE), C(engine_ENGINE), C(gpu_CLASS),
    C(fabric_FABRIC), and C(cpu_only) for a node without cards.
  - Everything that a node says of itself is text and never a template. Only an IP address becomes
    C(ansible_host).
  - A host that another source lists too keeps what is said of it there.
  - The file's name must end in C(llmgw.nodes.yml) or C(llmgw.nodes.yaml).
  - When the control plane does not answer, this source fails. Ansible only warns of that, unless
    C(unparsed_is_failed) in the section C(inventory) of its configuration is true. Then it is an
    error where there is no other source.
options:
  plugin:
    description: Marks the file as one of this plugin.
    type: str
    required: true
    choices:
      - llmgw.fleet.nodes
  via:
    description:
      - How the control plane is asked.
      - V(api) asks the admin API at O(url).
      - V(local) runs C(llmgw ctl nodes) on this machine, which then is the control plane.
      - V(ssh) runs it on O(ssh_host), because an admin API listens on loopback only.
    type: str
    choices:
      - api
      - local
      - ssh
    default: api
  url:
    description: Admin address for O(via=api), as V(http://HOST:PORT), V(https://HOST:PORT) or
      V(unix:///PATH).
    type: str
    default: http://127.0.0.1:9090
    env:
      - name: LLMGW_CTL_URL
  token:
    description: Sent as a bearer token, where something in front of the admin address asks for one.
    type: str
  ca_path:
    description: Certificates in PEM form by which the admin address is believed.
    type: path
  client_cert:
    description: Certificate in PEM form that is shown to the admin address.
    type: path
  client_key:
    description: Key of O(client_cert).
    type: path
  ssh_host:
    description: Machine of the control plane for O(via=ssh), as V(HOST) or V(USER@HOST).
    type: str
  ssh_args:
    description: Further words for C(ssh), such as V(-p) and V(2222).
    type: list
    elements: str
    default: []
  executable:
    description: The installed llmgw, on this machine or on O(ssh_host).
    type: str
    default: /usr/local/bin/llmgw
  timeout_s:
    description: How long an answer may take.
    type: float
    default: 10.0
  fail_if_unreachable:
    description: Whether this source fails when the control plane does not answer; else it warns and
      has no hosts.
    type: bool
    default: true
extends_documentation_fragment:
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
"""

EXAMPLES = r"""
# inventories/lab/llmgw.nodes.yml: on the control plane itself
plugin: llmgw.fleet.nodes

# From a controller elsewhere
# plugin: llmgw.fleet.nodes
# via: ssh
# ssh_host: root@10.0.0.10
# keyed_groups:
#   - key: llmgw_labels.rack | default('')
#     prefix: rack
"""

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.inventory.group import to_safe_group_name
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible_collections.llmgw.fleet.plugins.module_utils import _names
from ansible_collections.llmgw.fleet.plugins.module_utils._cli import Cli, CliFailed
from ansible_collections.llmgw.fleet.plugins.module_utils._client import ApiFailed, Client
from ansible_collections.llmgw.fleet.plugins.plugin_utils._untrusted import untrusted

GROUP = "node_host"
SUFFIXES = ("llmgw.nodes.yml", "llmgw.nodes.yaml")

_STATES = frozenset({"ready", "cordoned", "draining", "unreachable", "lost"})
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")
"""A node id that an older machine may have; what is not of this form is no name for ssh."""

_GROUP_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Reads one ``llmgw.nodes.yml``."""

    NAME = "llmgw.fleet.nodes"

    def verify_file(self, path: str) -> bool:
        """Whether the file's name says that it is for this plugin."""
        return path.endswith(SUFFIXES) and super().verify_file(path)

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:  # noqa: FBT001, FBT002 - Ansible's own signature
        """Add every node that the control plane knows."""
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        self.inventory.add_group(GROUP)
        for node in self._nodes(path, may_use_cache=cache):
            self._add(node)

    def _compose(self, template: Any, variables: Any, *words: Any, **options: Any) -> Any:
        """What is composed of untrusted values is as little trusted."""
        return untrusted(super()._compose(template, variables, *words, **options))

    def _nodes(self, path: str, *, may_use_cache: bool) -> list[Mapping[str, Any]]:
        key = self.get_cache_key(path)
        is_cached = self.get_option("cache")
        if is_cached and may_use_cache and key in self._cache:
            return self._cache[key]
        try:
            nodes = [node for node in self._asked().get("nodes") or () if isinstance(node, dict)]
        except (ApiFailed, CliFailed) as error:
            if self.get_option("fail_if_unreachable"):
                # Ansible prints every link of a chain, and this one has the same words twice.
                raise AnsibleParserError(f"{path}: {error.message}") from None
            self.display.warning(f"{path} has no hosts: {error.message}")
            return []
        if is_cached:
            self._cache[key] = nodes
        return nodes

    def _asked(self) -> dict[str, Any]:
        via = self.get_option("via")
        if via == "api":
            return self._client().get("nodes")
        words = ["ctl", "nodes", "--json"]
        program, timeout_s = self.get_option("executable"), self.get_option("timeout_s")
        if via == "local":
            return Cli(program, timeout_s=timeout_s).ask(words).document
        agent = os.environ.get("SSH_AUTH_SOCK")
        ssh = Cli("ssh", timeout_s, (("SSH_AUTH_SOCK", agent),) if agent else ())
        return ssh.ask([*self._ssh_words(), program, *words]).document

    def _client(self) -> Client:
        return Client(
            url=self.get_option("url"),
            token=self.get_option("token") or "",
            ca_path=self.get_option("ca_path"),
            client_cert=self.get_option("client_cert"),
            client_key=self.get_option("client_key"),
            timeout_s=self.get_option("timeout_s"),
        )

    def _ssh_words(self) -> list[str]:
        host = self.get_option("ssh_host")
        if not host:
            raise AnsibleParserError("via: ssh needs ssh_host, the machine of the control plane")
        bounds = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={self.get_option('timeout_s'):.0f}"]
        return [*bounds, *self.get_option("ssh_args"), "--", host]

    def _add(self, node: Mapping[str, Any]) -> None:
        name = str(node.get("node_id") or "")
        if not _HOST.fullmatch(name) or name.lower() in _names.RESERVED:
            self.display.warning(f"a node is left out: {name!r} can be no host's name")
            return
        listed = self.inventory.hosts.get(name)
        said = set(listed.vars) if listed else set()
        self.inventory.add_host(name, group=GROUP)
        variables = dict(self._variables(name, node))
        for key in variables.keys() - said:
            self.inventory.set_variable(name, key, variables[key])
        for group in _groups(node):
            self.inventory.add_child(self.inventory.add_group(group), name)
        self._construct(name, variables)

    def _construct(self, name: str, variables: dict[str, Any]) -> None:
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, name, strict=strict)
        keys = self.get_option("keyed_groups")
        self._add_host_to_keyed_groups(keys, variables, name, strict=strict)

    def _variables(self, name: str, node: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        address = node.get("mgmt_addr") or ""
        if _is_address(address):
            yield "ansible_host", address
        elif address:
            # Whatever stands there becomes a word of a command line, that of ssh.
            self.display.warning(f"{name}: its address {address!r} is no IP address and not used")
        for key, value in _shown(node).items():
            yield f"llmgw_{key}", untrusted(value)


def _shown(node: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "engines": node.get("engine_versions"),
        "fabrics": _words(node.get("fabrics"), "name"),
        "gpu_classes": _words(node.get("gpus"), "gpu_class"),
        "labels": node.get("labels") or {},
        "last_seen_s": node.get("last_seen_s"),
        "memory_total_mb": node.get("memory_total_mb"),
        "state": node.get("state"),
        "version": node.get("agent_version"),
    }


def _groups(node: Mapping[str, Any]) -> Iterator[str]:
    """Groups of known states and plain words; anything else makes none."""
    if node.get("state") in _STATES:
        yield f"state_{node['state']}"
    classes = _words(node.get("gpus"), "gpu_class")
    if not classes:
        yield "cpu_only"
    named = {
        "engine": list(node.get("engine_versions") or ()),
        "gpu": classes,
        "fabric": _words(node.get("fabrics"), "name"),
    }
    for prefix, words in named.items():
        for word in filter(_GROUP_WORD.fullmatch, words):
            yield to_safe_group_name(f"{prefix}_{word}", force=True, silent=True)


def _words(items: Any, key: str) -> list[str]:
    return sorted({str(item[key]) for item in items or () if item.get(key)})


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
