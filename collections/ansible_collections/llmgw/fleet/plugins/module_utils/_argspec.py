# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""The options that several modules share, and what is made from them.

The words for people are in ``doc_fragments``, under the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import env_fallback
from ansible_collections.llmgw.fleet.plugins.module_utils import _cli, _client
from ansible_collections.llmgw.fleet.plugins.module_utils._cli import Cli
from ansible_collections.llmgw.fleet.plugins.module_utils._client import Client

CONTROL_TOGETHER = [("client_cert", "client_key")]


def control() -> dict[str, dict[str, Any]]:
    """How a module reaches the admin API."""
    return {
        "url": {
            "type": "str",
            "default": _client.URL,
            "fallback": (env_fallback, ["LLMGW_CTL_URL"]),
        },
        "token": {"type": "str", "no_log": True},
        "ca_path": {"type": "path"},
        "client_cert": {"type": "path"},
        "client_key": {"type": "path", "no_log": False},
        "request_timeout_s": {"type": "float", "default": _client.TIMEOUT_S},
    }


def client(params: Mapping[str, Any]) -> Client:
    """The client that these options describe."""
    return Client(
        url=params["url"],
        token=params["token"] or "",
        ca_path=params["ca_path"],
        client_cert=params["client_cert"],
        client_key=params["client_key"],
        timeout_s=params["request_timeout_s"],
    )


def runtime(*, timeout_s: float = 60) -> dict[str, dict[str, Any]]:
    """Which llmgw a module runs, and for how long."""
    return {
        "executable": {"type": "path", "default": _cli.EXECUTABLE},
        "timeout_s": {"type": "float", "default": timeout_s},
    }


def cli(params: Mapping[str, Any]) -> Cli:
    """The llmgw that these options describe."""
    return Cli(executable=params["executable"], timeout_s=params["timeout_s"])
