"""Where everything of a control plane lies; the Ansible roles use the same places."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

USER = "llmgw"
UNIT = "llmgw-server"


@dataclass(frozen=True, slots=True)
class Places:
    """All places below one root, which is ``/`` but for tests."""

    root: Path = Path("/")

    @property
    def etc(self) -> Path:
        """Settings and certificates."""
        return self.root / "etc/llmgw"

    @property
    def secrets(self) -> Path:
        """Files that settings refer to."""
        return self.etc / "secrets"

    @property
    def authority(self) -> Path:
        """The authority, with the key that never leaves this folder."""
        return self.etc / "pki"

    @property
    def ca(self) -> Path:
        """The authority's certificate, for everybody."""
        return self.etc / "ca.pem"

    @property
    def cert(self) -> Path:
        """The server's certificate."""
        return self.etc / "server.pem"

    @property
    def key(self) -> Path:
        """The key of the server's certificate."""
        return self.etc / "server-key.pem"

    @property
    def settings(self) -> Path:
        """The server's settings."""
        return self.etc / "server.yaml"

    @property
    def state(self) -> Path:
        """What must outlive a restart; the home of the user."""
        return self.root / "var/lib/llmgw"

    @property
    def store(self) -> Path:
        """What must outlive every process, unless the settings name a database."""
        return self.state / "store.db"

    @property
    def unit(self) -> Path:
        """The systemd unit."""
        return self.root / f"etc/systemd/system/{UNIT}.service"

    @property
    def program(self) -> Path:
        """The command that units start."""
        return self.root / "usr/local/bin/llmgw"
