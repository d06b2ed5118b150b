"""The llmgw of this checkout as a program, for modules that run one."""

from __future__ import annotations

import os
from pathlib import Path

from playing import ROOT


def executable() -> Path:
    """The installed command: ``LLMGW``, else the one of the project's own environment."""
    found = Path(os.environ.get("LLMGW") or ROOT / ".venv" / "bin" / "llmgw")
    assert found.is_file(), f"{found} is missing: make .venv/dev.stamp, or set LLMGW"
    return found
