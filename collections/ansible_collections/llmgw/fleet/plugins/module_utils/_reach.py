# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds out whether anything has an address: before a new machine is given it.

It asks in the two ways that a machine seldom keeps silent to; silence is no proof.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

WAIT_S = 2.0
SSH_PORT = 22


def answers(address: str, *, ping: str | None, run: Callable[[list[str]], int]) -> str:
    """How the address answers, for a sentence; empty when nothing does.

    ``ping`` is the program of that name, if there is one, ``run`` returns a command's exit code.
    """
    try:
        with socket.create_connection((address, SSH_PORT), timeout=WAIT_S):
            return f"port {SSH_PORT} is open"
    except ConnectionRefusedError:
        return f"port {SSH_PORT} is refused"
    except OSError:
        pass
    if ping is None:
        return ""
    is_echoed = run([ping, "-n", "-c", "1", "-W", f"{WAIT_S:g}", address]) == 0
    return "ping" if is_echoed else ""
