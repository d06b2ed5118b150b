"""llmgw as a peer of the side-by-side gateway benchmark, which is given this file as a registry.

The product as it is installed, with everything on that exists: a server that only routes, its
worker as a process of its own, request ids, counters, bounds and one log line a request.
The harness fills in ports and addresses.
"""

from __future__ import annotations

import sys
from pathlib import Path

PEERS = [
    {
        "name": "llmgw",
        "cmd": [
            str(Path(sys.executable).with_name("llmgw")),
            "server",
            "--endpoint",
            "a={up1}=mock-model",
            "--endpoint",
            "b={up2}=mock-model",
        ],
        "env": {
            "LLMGW_LISTEN": "127.0.0.1:{port}",
            "LLMGW_ADMIN_LISTEN": "127.0.0.1:{port2}",
            "LLMGW_STATE_DIR": "{dir}/state",
            "LLMGW_RUN_DIR": "{dir}/run",
        },
    }
]
