"""Random identifiers."""

from __future__ import annotations

import os
import secrets


def token(n_bytes: int = 4) -> str:
    """Hex digits of ``n_bytes`` random bytes."""
    return secrets.token_hex(n_bytes)


def request_id() -> str:
    """A fresh id for one client request, ``req-`` and 24 hex digits."""
    return "req-" + os.urandom(12).hex()
