"""Whether an engine serves: it answers, with the right model, and it is ours that answers.

``shard`` asks again and again; one look here is one ``serving_problem``. A good answer of another
process on the same port must not count, so the owner of the listener is part of the question.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import json
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass

import httpx

from llmgw.agent.supervisor import proctable
from llmgw.agent.supervisor.processes import Process
from llmgw.domain.replicas import PORT_IN_USE
from llmgw.errors import AlreadyHeld, Invalid
from llmgw.kit.addresses import Address

PROBE_TIMEOUT_S = 3.0
_MODELS_PATH = "/v1/models"
_METRICS_PATH = "/metrics"
_MAX_BODY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class HttpCheck:
    """Where an engine answers and what it must say; no model means that any will do."""

    address: str
    port: int
    health_path: str
    model: str
    request_metrics: tuple[str, ...] = ()
    """Gauges that together count its requests; none means that it cannot be asked."""
    work_metrics: tuple[str, ...] = ()
    """Counters that tell of work done."""

    @property
    def base_url(self) -> str:
        """Scheme, host and port."""
        return f"http://{Address(self.address, self.port)}"


class Readiness:
    """Asks whether one rank is ready; one without a port is by staying alive for a while."""

    def __init__(
        self, check: HttpCheck | None, *, client: httpx.AsyncClient, alive_grace_s: float
    ) -> None:
        """No ``check`` means a rank that answers nobody."""
        self._check = check
        self._client = client
        self._alive_grace_s = alive_grace_s

    async def problem(self, engine: Process) -> str:
        """Why it is not ready, or nothing when it is."""
        check = self._check
        if check is None:
            has_ended = await engine.wait(timeout_s=self._alive_grace_s)
            return "it ended" if has_ended else ""
        return await serving_problem(check, client=self._client) or await asyncio.to_thread(
            lambda: owner_problem(check, pids=engine.pids())
        )


async def answers(check: HttpCheck, *, client: httpx.AsyncClient) -> bool:
    """Whether anything at all comes back: also an engine that calls itself ill is not hung."""
    try:
        await _get(client, check.base_url + check.health_path)
    except (httpx.HTTPError, TimeoutError):
        return False
    return True


async def requests(check: HttpCheck, *, client: httpx.AsyncClient) -> float | None:
    """How many requests the engine has by its own word; nothing when it does not say."""
    try:
        status, body = await _get(client, check.base_url + _METRICS_PATH)
    except (httpx.HTTPError, TimeoutError):
        return None
    text = body.decode(errors="replace") if status == httpx.codes.OK else ""
    counts = [_gauge(text, name) for name in check.request_metrics]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


async def serving_problem(check: HttpCheck, *, client: httpx.AsyncClient) -> str:
    """Why the engine does not serve yet, or nothing when it does."""
    try:
        status, _ = await _get(client, check.base_url + check.health_path)
        if status != httpx.codes.OK:
            return f"health: {check.health_path} answers {status}"
        if not check.model:
            return ""
        status, body = await _get(client, check.base_url + _MODELS_PATH)
    except (httpx.HTTPError, TimeoutError) as error:
        return f"health: {check.base_url} does not answer ({type(error).__name__})"
    if status != httpx.codes.OK:
        return f"{_MODELS_PATH} answers {status}"
    served = _model_ids(body)
    if check.model in served:
        return ""
    return f"it does not serve {check.model!r} but {', '.join(served)[:200] or 'nothing'}"


def owner_problem(check: HttpCheck, *, pids: Iterable[int]) -> str:
    """Why the port is not our engine's, or nothing when its processes hold the listener."""
    found = _relevant(proctable.listeners(port=check.port), address=check.address)
    if not found:
        return f"nothing listens on {Address(check.address, check.port)}"
    ours: set[int] = set().union(*(proctable.socket_inodes(pid) for pid in pids))
    strangers = [one for one in found if one.inode not in ours]
    return _held(check, strangers) if strangers else ""


def check_port_free(check: HttpCheck) -> None:
    """Raise ``AlreadyHeld``, naming the holder, when the engine could not listen on its port."""
    family = socket.AF_INET6 if ":" in check.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((check.address, check.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                found = _relevant(proctable.listeners(port=check.port), address=check.address)
                raise AlreadyHeld(_held(check, found)) from error
            raise Invalid(
                f"engines cannot listen on {Address(check.address, check.port)} "
                f"({error.strerror}); set mgmt_addr to an address of this machine"
            ) from error


def _held(check: HttpCheck, strangers: Iterable[proctable.Listener]) -> str:
    holders = sorted({_holder(one.inode) for one in strangers})
    named = ", ".join(holders) or "another process"
    return f"{PORT_IN_USE}: {Address(check.address, check.port)} is held by {named}"


def _holder(inode: int) -> str:
    for entry in proctable.running():
        if inode in proctable.socket_inodes(entry.pid):
            return f"process {entry.pid} ({proctable.command_name(entry.pid)})"
    return "another process"


def _relevant(found: list[proctable.Listener], *, address: str) -> list[proctable.Listener]:
    """The sockets that a connection to this address may reach: the exact ones, else wildcards."""
    try:
        wanted = str(ipaddress.ip_address(address))
    except ValueError:
        return found
    exact = [one for one in found if one.address == wanted]
    return exact or [one for one in found if one.is_wildcard]


async def _get(client: httpx.AsyncClient, url: str) -> tuple[int, bytes]:
    body = bytearray()
    async with (
        asyncio.timeout(PROBE_TIMEOUT_S),
        client.stream("GET", url, timeout=PROBE_TIMEOUT_S) as response,
    ):
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _MAX_BODY_BYTES:
                break
    return response.status_code, bytes(body)


def _model_ids(body: bytes) -> list[str]:
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
        return [str(one["id"]) for one in json.loads(body)["data"]]
    return []


def _gauge(text: str, name: str) -> float | None:
    """The sum of all samples of one name in Prometheus' text format."""
    found = re.findall(rf"^{re.escape(name)}(?:\{{[^\n]*\}})?[ \t]+(\S+)", text, re.MULTILINE)
    try:
        return sum(map(float, found)) if found else None
    except ValueError:
        return None
