"""Who runs a command, by its own word, as the log of acts tells it."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping

_ROOT = "root"


def who(environ: Mapping[str, str]) -> str:
    """The name of the user; behind ``sudo`` of the one who called it."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
    return (environ.get("SUDO_USER") or name) if name == _ROOT else name
