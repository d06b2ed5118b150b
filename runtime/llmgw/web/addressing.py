"""Under which address people reach the cluster: as it was set, or else as they asked."""

from __future__ import annotations

import re
from dataclasses import dataclass

from starlette.requests import Request

_HOST = re.compile(r"[A-Za-z0-9.\-:\[\]]{1,255}")


@dataclass(frozen=True, slots=True)
class Addressing:
    """``public_url`` is empty where it was not set."""

    public_url: str = ""

    @property
    def is_secure(self) -> bool:
        """Whether clients come by TLS."""
        return self.public_url.startswith("https://")

    def of(self, request: Request) -> str:
        """The address without a slash at its end."""
        if self.public_url:
            return self.public_url.rstrip("/")
        host = request.headers.get("host", "")
        return f"http://{host}" if _HOST.fullmatch(host) else ""
