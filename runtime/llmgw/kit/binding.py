"""Why a TCP port cannot be listened on, in the words that every program of ours says it with."""

from __future__ import annotations

import errno
import os
import socket

from llmgw.errors import AlreadyHeld, Invalid, LlmgwError
from llmgw.kit.addresses import Address


def refusal(at: Address, error: OSError) -> LlmgwError:
    """Our error for a bind that failed: somebody holds the port, or the address is not ours."""
    if not isinstance(error, socket.gaierror) and error.errno == errno.EADDRINUSE:
        return AlreadyHeld(
            f"cannot listen on {at}: another process holds that port; stop it, or choose another"
        )
    # asyncio puts a sentence of its own where the system's is expected.
    is_system = error.errno is not None and error.errno > 0
    reason = os.strerror(error.errno or 0) if is_system else error.strerror
    return Invalid(f"cannot listen on {at}: {reason or error}")


def check(at: Address) -> None:
    """Raise ``refusal`` unless one could listen there now."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            at.host or None, at.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
            probe.listen(1)
    except OSError as error:
        raise refusal(at, error) from error
