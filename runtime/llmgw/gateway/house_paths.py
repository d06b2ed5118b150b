"""Which paths are the control plane's, and who may ask them; all are listed, there is no rest.

``pipeline`` looks here before it asks for a key; ``house`` passes on what it finds. Pure.
"""

from __future__ import annotations

import re
from typing import Final

OPEN: Final = frozenset(
    {
        b"/login",
        b"/login/oidc",
        b"/login/oidc/callback",
        b"/logout",
        b"/profile",
        b"/profile/keys",
        b"/profile/password",
        b"/signup",
    }
)
"""For people, who show a cookie or nothing."""

OPEN_BELOW: Final = (
    re.compile(rb"/claim/[\w-]{1,128}"),
    re.compile(rb"/profile/keys/[\w-]{1,64}/revoke"),
)
"""The same with one name in them."""

KEYED: Final = frozenset({b"/me", b"/v1/usage"})
"""For the owner of a key, who shows it."""


def is_open(path: bytes) -> bool:
    """Whether no key is asked for here."""
    return path in OPEN or any(one.fullmatch(path) for one in OPEN_BELOW)


def told(path: bytes) -> bytes:
    """The path as the log may have it: a link's token opens a key."""
    return b"/claim/-" if path.startswith(b"/claim/") else path


def is_of_house(path: bytes) -> bool:
    """Whether the control plane answers it."""
    return path in KEYED or is_open(path)
