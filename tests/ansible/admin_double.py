"""A control plane's admin API as the modules see it: real HTTP, a log, and faults on demand.

It answers in the shapes of ``/api/v1`` and keeps flags of nodes; it places nothing.
"""

from __future__ import annotations

import json
import socket
import socketserver
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

TARGETS = ("ready", "cordoned", "draining")


def node(node_id: str, **changes: Any) -> dict[str, Any]:
    """A node as the admin API shows it."""
    return {
        "node_id": node_id,
        "state": "ready",
        "target": "ready",
        "last_seen_s": 1.5,
        "is_connected": True,
        "flag_reason": "",
        "hostname": node_id,
        "mgmt_addr": "10.0.0.145",
        "agent_version": "0.1.0",
        "labels": {},
        "gpus": [],
        "fabrics": [],
        "memory_total_mb": 8192,
        "engine_versions": {"llamacpp": "b10991"},
        "replica_ids": [],
        "stray_shard_ids": [],
        **changes,
    }


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    method: str
    path: str
    body: Any
    headers: dict[str, str]


@dataclass
class Fault:
    """What is answered, once, in the place of the right answer."""

    status: int = 500
    body: bytes = b""
    after_s: float = 0.0
    location: str = ""


@dataclass
class AdminDouble:
    """The server; a context manager."""

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    replicas: list[dict[str, Any]] = field(default_factory=list)
    models: list[dict[str, Any]] = field(default_factory=list)
    log: list[Asked] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    leaving: dict[str, int] = field(default_factory=dict)
    """Replicas that leave their node after it has been looked at so many more times."""
    socket_path: Path | None = None

    def __enter__(self) -> Self:
        """Listen on loopback, or on the given socket."""
        self._server = _server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close, and wait for the end."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def url(self) -> str:
        """Its admin address."""
        if self.socket_path is not None:
            return f"unix://{self.socket_path}"
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, node_id: str, **changes: Any) -> None:
        """One more node."""
        self.nodes[node_id] = node(node_id, **changes)

    @property
    def orders(self) -> list[tuple[str, str, Any]]:
        """What was asked that changes something."""
        return [(a.method, a.path, a.body) for a in self.log if a.method != "GET"]

    def answer(self, asked: Asked) -> tuple[int, Any]:
        """Status and document of a request."""
        parts = urlsplit(asked.path).path.removeprefix("/api/v1/").split("/")
        query = {k: v[0] for k, v in parse_qs(urlsplit(asked.path).query).items()}
        match (asked.method, parts):
            case ("GET", ["nodes"]):
                return 200, {"nodes": [self.nodes[name] for name in sorted(self.nodes)]}
            case ("GET", ["nodes", name]) if name in self.nodes:
                return 200, self._seen(name)
            case ("POST", ["nodes", name, "state"]) if name in self.nodes:
                return self._flag(self.nodes[name], asked.body)
            case ("DELETE", ["nodes", name]) if name in self.nodes:
                return self._forget(name)
            case ("GET", ["replicas"]):
                held = self.nodes.get(query.get("node", ""), {}).get("replica_ids", [])
                return 200, {"replicas": [r for r in self.replicas if r["replica_id"] in held]}
            case ("GET", ["models"]):
                return 200, {"models": self.models}
        return 404, problem("unknown", "unknown", f"there is no {'/'.join(parts)!r}")

    def _seen(self, name: str) -> dict[str, Any]:
        shown = dict(self.nodes[name])
        for replica in list(shown["replica_ids"]):
            self.leaving[replica] = self.leaving.get(replica, 1_000_000) - 1
            if self.leaving[replica] < 0 and shown["state"] == "draining":
                left = [r for r in self.nodes[name]["replica_ids"] if r != replica]
                self.nodes[name]["replica_ids"] = left
        return {**shown, "replica_ids": self.nodes[name]["replica_ids"]}

    def _flag(self, held: dict[str, Any], body: Any) -> tuple[int, Any]:
        if body.get("target") not in TARGETS or set(body) - {"target", "reason"}:
            return 400, problem("invalid", "invalid", "the request has 1 mistake(s)")
        held["target"] = body["target"]
        held["flag_reason"] = "" if body["target"] == "ready" else body.get("reason", "")
        if held["state"] in TARGETS:
            held["state"] = body["target"]
        return 200, held

    def _forget(self, name: str) -> tuple[int, Any]:
        if self.nodes[name]["is_connected"]:
            return 409, problem("conflict", "conflict", f"node {name!r} is connected")
        del self.nodes[name]
        return 204, None


def problem(code: str, kind: str, message: str) -> dict[str, Any]:
    """The one shape of every error."""
    return {
        "error": {"code": code, "kind": kind, "message": message, "details": [], "request_id": "r1"}
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """The log is ``AdminDouble.log``."""

    def address_string(self) -> str:
        """A unix socket has no address."""
        return "local"

    def handle_any(self) -> None:
        """Answer by the double, or with the next fault."""
        double = self.server.double
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        asked = Asked(self.command, self.path, body, dict(self.headers))
        double.log.append(asked)
        if double.faults:
            fault = double.faults.pop(0)
            time.sleep(fault.after_s)
            self._send(fault.status, fault.body, location=fault.location)
            return
        status, document = double.answer(asked)
        self._send(status, b"" if document is None else json.dumps(document).encode())

    do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - names of the base class

    def _send(self, status: int, body: bytes, *, location: str = "") -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        if location:
            self.send_header("location", location)
        self.end_headers()
        self.wfile.write(body)


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class _TcpServer(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Without the look-up of a name that the base class makes."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", self.server_address[1]


def _server(double: AdminDouble) -> socketserver.BaseServer:
    if double.socket_path is not None:
        server = _UnixServer(str(double.socket_path), _Handler)
    else:
        server = _TcpServer(("127.0.0.1", 0), _Handler)
    server.double = double
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return server
