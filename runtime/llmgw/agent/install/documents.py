"""Small JSON files that one process writes and others read at any moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from llmgw.errors import Invalid
from llmgw.kit import ids


def read(path: Path) -> dict[str, Any] | None:
    """The object in a file; nothing for a file that is missing, torn or something else."""
    try:
        value: object = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write(path: Path, value: object) -> None:
    """Whole or not at all, readable to everybody."""
    part = path.with_name(f"{path.name}.{ids.token()}")
    try:
        part.write_text(json.dumps(value, indent=1) + "\n")
        part.chmod(0o644)
        part.replace(path)
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
