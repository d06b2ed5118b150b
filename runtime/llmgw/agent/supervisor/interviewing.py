"""What an engine says of itself over HTTP: that it serves, what it has to do, what it has done.

``readiness``, ``vigil`` and ``idling`` ask again and again; one call here is one look.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

import httpx

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


@dataclass(frozen=True, slots=True)
class Figures:
    """What an engine says of itself at one moment; what it does not say is absent."""

    answers: bool
    """Anything at all came back: also an engine that calls itself ill is not hung."""
    is_late: bool = False
    """It answers, and its figures did not come in time."""
    requests: float | None = None
    work_done: float | None = None
    """Sum of counters that only rise."""


async def figures(check: HttpCheck, *, client: httpx.AsyncClient) -> Figures:
    """Ask for its figures and, where none come, whether it is there at all.

    llama.cpp answers the second while it reads a long prompt and not the first.
    """
    if check.request_metrics:
        try:
            status, body = await _get(client, check.base_url + _METRICS_PATH)
        except (httpx.HTTPError, TimeoutError):
            is_there = await answers(check, client=client)
            return Figures(answers=is_there, is_late=is_there)
        text = body.decode(errors="replace") if status == httpx.codes.OK else ""
        return Figures(
            answers=True,
            requests=_all_of(text, check.request_metrics),
            work_done=_any_of(text, check.work_metrics),
        )
    return Figures(answers=await answers(check, client=client))


async def answers(check: HttpCheck, *, client: httpx.AsyncClient) -> bool:
    """Whether its health path answers, whatever it says."""
    try:
        await _get(client, check.base_url + check.health_path)
    except (httpx.HTTPError, TimeoutError):
        return False
    return True


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
    with contextlib.suppress(ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return [str(one["id"]) for one in json.loads(body)["data"]]
    return []


def _all_of(text: str, names: Iterable[str]) -> float | None:
    """The sum of samples of all these names, or nothing when one of them is missing."""
    found = [_sample(text, name) for name in names]
    known = [value for value in found if value is not None]
    return sum(known) if known and len(known) == len(found) else None


def _any_of(text: str, names: Iterable[str]) -> float | None:
    """The sum of samples of those names that are there."""
    known = [value for name in names if (value := _sample(text, name)) is not None]
    return sum(known) if known else None


def _sample(text: str, name: str) -> float | None:
    """The sum of all samples of one name in Prometheus' text format."""
    found = re.findall(rf"^{re.escape(name)}(?:\{{[^\n]*\}})?[ \t]+(\S+)", text, re.MULTILINE)
    try:
        return sum(map(float, found)) if found else None
    except ValueError:
        return None
