# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""The filter that says on which addresses a control plane listens, whoever wrote its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import yaml

_USUAL = {"listen": ":8080", "admin_listen": "127.0.0.1:9090", "agent_listen": ":7443"}
_ANY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - nothing is bound
"""How the host itself dials a listener that takes every address."""


def listeners(
    settings: Mapping[str, Any], written: str = "", environment: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    """``port``, and ``dial`` for the host itself, by the name of the setting.

    ``written`` is the server.yaml that is there and stays; what it says wins over the settings, and
    variables of the service win over both. A file that cannot be read says nothing.
    """
    given = _file(written) or settings
    variables = environment or {}
    return {
        name: _listener(str(variables.get(f"LLMGW_{name.upper()}") or given.get(name) or usual))
        for name, usual in _USUAL.items()
    }


def _listener(address: str) -> dict[str, Any]:
    host, _colon, port = address.rpartition(":")
    return {"port": int(port) if port.isdigit() else 0, "dial": f"{_ANY.get(host, host)}:{port}"}


def _file(text: str) -> Mapping[str, Any]:
    try:
        read = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return {}
    return read if isinstance(read, Mapping) else {}


class FilterModule:
    """The filter on a server's settings."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Its name in templates."""
        return {"listeners": listeners}
