"""Which file of settings a command reads: the one that is named, else the usual one if it exists.

For commands of a role on its own machine; it reads nothing of what the file holds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

AGENT = Path("/etc/llmgw/agent.yaml")
GATEWAY = Path("/etc/llmgw/gateway.yaml")
SERVER = Path("/etc/llmgw/server.yaml")


def option(usual: Path, *, whose: str) -> Callable[[Any], Any]:
    """The option ``--config`` of a command."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        help=f"{whose} settings.  [default: {usual} where there is one]",
    )


def chosen(named: Path | None, *, usual: Path) -> Path | None:
    """The file to read; nothing where none is named and the usual one is not there."""
    return named or (usual if usual.is_file() else None)
