"""Where a server answers its own gateway's workers; both ends find it by this name."""

from __future__ import annotations

from pathlib import Path


def path(run_dir: Path) -> Path:
    """The socket of the pages in a run folder."""
    return run_dir / "pages.sock"
