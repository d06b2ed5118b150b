# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads from the API of a Proxmox cluster with a token; it can change nothing.

The module ``vm_plan_info`` asks through it. Changes are made by the modules of community.proxmox,
which bring a library of their own; nothing of Python beyond its standard library is needed here.
"""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode

from ansible.module_utils.urls import open_url

TIMEOUT_S = 10.0

_MAX_BYTES = 64 * 1024 * 1024
_LONGEST_WORDS = 400
_NODE_IS_AWAY = frozenset({595, 596, 597, 598, 599})


class ApiFailed(Exception):
    """The API cannot be asked at all; the sentence says why and what to do."""


class ApiRefused(Exception):
    """The API answered one question with a refusal; the sentence is Proxmox's own."""

    def __init__(self, message: str, *, status: int) -> None:
        """Keep Proxmox's words and the status by which they came."""
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Api:
    """One cluster, through one of its hosts, with the rights of one token."""

    host: str
    port: int
    user: str
    token_id: str
    token_secret: str = field(repr=False)
    ca_path: str | None = None
    is_verified: bool = True
    timeout_s: float = TIMEOUT_S

    @property
    def token(self) -> str:
        """The token as Proxmox names it in its lists of rights."""
        return f"{self.user}!{self.token_id}"

    def get(self, *path: str | int, **filters: str | int) -> Any:
        """What stands at a path, such as ``get("nodes", "pve1", "network", type="any_bridge")``."""
        place = "/".join(quote(str(part), safe="") for part in path)
        query = f"?{urlencode(filters)}" if filters else ""
        try:
            with open_url(
                f"https://{_bracketed(self.host)}:{self.port}/api2/json/{place}{query}",
                headers={"Authorization": f"PVEAPIToken={self.token}={self.token_secret}"},
                timeout=self.timeout_s,
                http_agent="llmgw.fleet",
                use_netrc=False,
                follow_redirects="none",
                validate_certs=self.is_verified,
                ca_path=self.ca_path,
            ) as response:
                return json.loads(response.read(_MAX_BYTES))["data"]
        except HTTPError as error:
            raise self._refusal(error, place) from error
        except (TypeError, KeyError, ValueError) as error:
            raise ApiFailed(
                f"{self.host}:{self.port} answers, but not as the API of Proxmox: is "
                "vm_api_host a Proxmox host and vm_api_port its port (8006)?"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def _refusal(self, error: HTTPError, place: str) -> ApiFailed | ApiRefused:
        with error:
            said = _words(error.read(_MAX_BYTES)) or str(error.reason)
        if error.code == 401:
            return ApiFailed(
                f"Proxmox at {self.host}:{self.port} refuses the token {self.token} ({said}): "
                "look at vm_api_user, vm_api_token_id, vm_api_token_secret and the token's expiry"
            )
        if error.code in _NODE_IS_AWAY:
            said = f"the Proxmox host that holds /{place} does not answer ({said})"
        return ApiRefused(said[:_LONGEST_WORDS], status=error.code)

    def _unreachable(self, error: Exception) -> ApiFailed:
        reason = getattr(error, "reason", None) or error
        where = f"the Proxmox API at https://{_bracketed(self.host)}:{self.port}"
        if isinstance(reason, ssl.SSLCertVerificationError):
            return ApiFailed(
                f"{where} shows a certificate that is not believed ({reason.verify_message}): "
                "set vm_ca_path to its CA, on a Proxmox host /etc/pve/pve-root-ca.pem; "
                "vm_insecure=true believes anybody"
            )
        if isinstance(reason, TimeoutError) or "timed out" in str(reason):
            said = f"did not answer within {self.timeout_s:g} s"
        else:
            said = f"cannot be reached ({reason})"
        return ApiFailed(
            f"{where} {said}: are vm_api_host and vm_api_port right, is the Proxmox host up, and "
            "may this controller reach it?"
        )


def _words(body: bytes) -> str:
    """What Proxmox says in an answer, with the fields that it complains about."""
    try:
        answer = json.loads(body)
        fields = answer.get("errors") or {}
        said = [str(answer.get("message") or "").strip()]
        return "; ".join(
            part for part in (*said, *(f"{k}: {v}" for k, v in fields.items())) if part
        )
    except (ValueError, AttributeError):
        return ""


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
