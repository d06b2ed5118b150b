"""Why a socket of the simulated engine could not be bound."""

from __future__ import annotations

import errno

from llmgw.errors import AlreadyHeld, Invalid, LlmgwError
from llmgw.kit.addresses import Address


def refusal(at: Address, error: OSError) -> LlmgwError:
    """Our error for a bind that failed: somebody holds the port, or the address is not ours."""
    if error.errno == errno.EADDRINUSE:
        return AlreadyHeld(f"cannot listen on {at}: another process holds that port")
    return Invalid(f"cannot listen on {at}: {error.strerror or error}")
