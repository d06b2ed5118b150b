"""llmgw as a peer of the side-by-side gateway benchmark, which is given this file as a registry.

The product as it is installed: a server that only routes, its worker as a process of its own.
``llmgw`` has two endpoints, as the other peers have, and what is on by default: scoring, admission,
usage, receipts, bounds, request ids, counters, one log line a request.  ``llmgw-all`` has eight
endpoints to compare and prefix affinity on top.  The harness fills in ports and addresses.
"""

from __future__ import annotations

import sys
from pathlib import Path

_LLMGW = str(Path(sys.executable).with_name("llmgw"))
_ENVIRONMENT = {
    "LLMGW_LISTEN": "127.0.0.1:{port}",
    "LLMGW_ADMIN_LISTEN": "127.0.0.1:{port2}",
    "LLMGW_STATE_DIR": "{dir}/state",
    "LLMGW_RUN_DIR": "{dir}/run",
}


def _server(endpoints: int) -> list[str]:
    words = [_LLMGW, "server"]
    for number in range(endpoints):
        words += ["--endpoint", f"e{number}={{up{number % 2 + 1}}}=mock-model"]
    return words


PEERS = [
    {"name": "llmgw", "cmd": _server(2), "env": _ENVIRONMENT},
    {
        "name": "llmgw-all",
        "cmd": _server(8),
        "env": {**_ENVIRONMENT, "LLMGW_ROUTER__PREFIX__ENABLED": "true"},
    },
]
