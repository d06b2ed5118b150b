"""What stands between ``ctl`` and its command; light, because the help of ``ctl`` loads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from llmgw.errors import Invalid


@dataclass(frozen=True, slots=True)
class CtlOptions:
    """Whom to ask, for how long, and how to write."""

    admin_url: str
    timeout_s: float | None = None
    token_file: Path | None = None
    has_headers: bool = True

    def token(self) -> str:
        """What the file holds; empty without one."""
        if self.token_file is None:
            return ""
        try:
            return self.token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Invalid(f"--token-file {self.token_file} cannot be read: {error}") from error
