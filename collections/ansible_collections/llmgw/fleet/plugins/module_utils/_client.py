# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Asks the admin API of a control plane; nothing of Python beyond its standard library is needed.

No proxy is used and no redirect followed, so that a token goes nowhere but to the address given.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit

from ansible.module_utils.urls import open_url

URL = "http://127.0.0.1:9090"
TIMEOUT_S = 10.0

_REPEATABLE = frozenset({"GET", "PUT"})
_PAUSES_S = (0.5, 1.0)
_PASSING = frozenset({502, 503, 504})
_MAX_BYTES = 64 * 1024 * 1024


class ApiFailed(Exception):
    """The control plane did not do what it was asked; the sentence says why and what to do."""

    def __init__(self, message: str, *, kind: str, code: str = "", status: int = 0) -> None:
        """Keep the sentence and what programs tell failures apart by."""
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.code = code or kind
        self.status = status


@dataclass(frozen=True)
class Client:
    """One admin address: ``http://…``, ``https://…`` or ``unix:///path/of/socket``."""

    url: str = URL
    token: str = ""
    ca_path: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    timeout_s: float = TIMEOUT_S

    def get(self, *path: str, **filters: str) -> dict[str, Any]:
        """The document at a path; asked again when the control plane is away for a moment."""
        asked = {key: value for key, value in filters.items() if value}
        return self._ask("GET", path, query=urlencode(asked))

    def post(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """What the control plane answers to an order; an order is sent once."""
        return self._ask("POST", path, body=body)

    def delete(self, *path: str) -> dict[str, Any]:
        """What the control plane answers; sent once."""
        return self._ask("DELETE", path)

    def _ask(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: str = "",
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        place = "/".join(["/api/v1", *(quote(part, safe="") for part in path)])
        pauses = _PAUSES_S if method in _REPEATABLE else ()
        for pause_s in (*pauses, None):
            try:
                return self._ask_once(method, f"{place}?{query}" if query else place, body)
            except ApiFailed as error:
                is_passing = error.kind == "unreachable" or error.status in _PASSING
                if pause_s is None or not is_passing:
                    raise
            time.sleep(pause_s)
        raise AssertionError("the last attempt answers or raises")

    def _ask_once(self, method: str, place: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        base, socket = self._place()
        try:
            with open_url(
                base + place,
                method=method,
                data=None if body is None else json.dumps(body),
                headers=headers,
                timeout=self.timeout_s,
                http_agent="llmgw.fleet",
                use_proxy=False,
                use_netrc=False,
                follow_redirects="none",
                ca_path=self.ca_path,
                client_cert=self.client_cert,
                client_key=self.client_key,
                unix_socket=socket,
            ) as response:
                return self._document(response.read(_MAX_BYTES))
        except HTTPError as error:
            raise self._refusal(error) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unreachable(error) from error

    def _place(self) -> tuple[str, str | None]:
        parts = urlsplit(self.url)
        if parts.scheme == "unix" and parts.path and not parts.netloc:
            return "http://localhost", parts.path
        if parts.scheme in {"http", "https"} and parts.netloc:
            return self.url.rstrip("/"), None
        raise ApiFailed(
            f"{self.url!r} is no admin address: write http://HOST:PORT, https://HOST:PORT "
            "or unix:///PATH",
            kind="invalid",
        )

    def _document(self, text: bytes) -> dict[str, Any]:
        if not text:
            return {}
        try:
            document = json.loads(text)
        except ValueError as error:
            raise self._foreign() from error
        if not isinstance(document, dict):
            raise self._foreign()
        return document

    def _refusal(self, error: HTTPError) -> ApiFailed:
        with error:
            text = error.read(_MAX_BYTES)
        try:
            problem = json.loads(text)["error"]
            message, kind, code = problem["message"], problem["kind"], problem["code"]
        except (ValueError, TypeError, KeyError):
            return self._foreign(error.code)
        details = [f"{d.get('path')}: {d.get('problem')}" for d in problem.get("details") or ()]
        return ApiFailed("; ".join([message, *details]), kind=kind, code=code, status=error.code)

    def _unreachable(self, error: Exception) -> ApiFailed:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, TimeoutError) or "timed out" in str(reason):
            said = f"did not answer within {self.timeout_s:g} s"
        else:
            said = f"cannot be reached ({reason})"
        return ApiFailed(
            f"the control plane at {self.url} {said}: is llmgw-server running, and is this its "
            "admin address, which answers on the control plane's own loopback only?",
            kind="unreachable",
        )

    def _foreign(self, status: int = 200) -> ApiFailed:
        return ApiFailed(
            f"{self.url} answers, but not as an admin API: is that the admin address "
            f"({URL} by default) or the one for clients?",
            kind="foreign",
            status=status,
        )
