"""Keeps a number of streams open against an endpoint for a while and times each of them.

Each stream has a connection of its own, as separate clients have; the next request begins when the
last one ended (closed loop).  Called level by level from ``run``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from llmgw.bench import engine_metrics
from llmgw.bench.levels import EngineLoad, LevelFigures, Sample, summarise
from llmgw.errors import Invalid, Unreachable

_DIAL_S = 10.0
_METRICS_S = 5.0
_SAID_CHARS = 160
_MIDDLE = 0.5
"""The engine is asked for its load in the middle of a level, when it carries all of it."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is measured: ``url`` ends where ``/chat/completions`` begins, as OpenAI clients take it.

    ``metrics_url`` is a page of the engine's own figures; empty asks for none.
    """

    url: str
    model: str
    api_key: str = field(default="", repr=False)
    metrics_url: str = ""


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent: tokens of each answer, time of one level, and how long a request may take."""

    output_tokens: int
    level_s: float
    request_s: float


class Driver:
    """Drives one target; use as an async context manager."""

    def __init__(self, target: Target, load: Load, *, prompts: Iterator[str]) -> None:
        self._target = target
        self._load = load
        self._prompts = prompts
        self._clients: list[httpx.AsyncClient] = []

    async def __aenter__(self) -> Self:
        """Nothing is opened before the first level."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        await asyncio.gather(*(client.aclose() for client in self._clients))

    async def check(self) -> None:
        """One short request, so that a wrong address, model or key is told before the ramp.

        Raises ``Unreachable`` when nobody answers, ``Invalid`` for an answer that is a refusal.
        """
        sample = await self._ask(self._client(0), output_tokens=1)
        if not sample.error:
            return
        words = f"{self._target.url} with the model {self._target.model}: {sample.error}"
        if sample.error.startswith("status 4"):
            raise Invalid(words)
        raise Unreachable(words)

    async def level(self, concurrency: int) -> LevelFigures:
        """Drive one level; requests that run when its time is over are waited for and counted."""
        began = time.monotonic()
        until = began + self._load.level_s
        asked = asyncio.create_task(self._engine_load(), name="engine-load")
        streams = [self._stream(self._client(i), until=until) for i in range(concurrency)]
        samples = [s for of_one in await asyncio.gather(*streams) for s in of_one]
        wall_s = time.monotonic() - began
        return summarise(samples, concurrency=concurrency, wall_s=wall_s, load=await asked)

    async def _stream(self, client: httpx.AsyncClient, *, until: float) -> list[Sample]:
        samples: list[Sample] = []
        while not samples or time.monotonic() < until:
            samples.append(await self._ask(client, output_tokens=self._load.output_tokens))
            if samples[-1].error:
                await asyncio.sleep(min(0.5, max(until - time.monotonic(), 0.0)))
        return samples

    async def _ask(self, client: httpx.AsyncClient, *, output_tokens: int) -> Sample:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._load.request_s):
                return await self._timed(client, began, output_tokens=output_tokens)
        except TimeoutError:
            error = f"no whole answer within {self._load.request_s:g} s"
        except httpx.HTTPError as failure:
            error = str(failure) or type(failure).__name__
        return Sample(took_s=time.monotonic() - began, error=error)

    async def _timed(
        self, client: httpx.AsyncClient, began: float, *, output_tokens: int
    ) -> Sample:
        body = {
            "model": self._target.model,
            "messages": [{"role": "user", "content": next(self._prompts)}],
            "max_tokens": output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "ignore_eos": True,
        }
        answer = _Answer()
        url = f"{self._target.url}/chat/completions"
        async with client.stream("POST", url, json=body) as response:
            if response.status_code != httpx.codes.OK:
                said = _said(await response.aread())
                return Sample(
                    took_s=time.monotonic() - began,
                    error=f"status {response.status_code}, {said}",
                )
            async for line in response.aiter_lines():
                answer.take(line, at=time.monotonic())
        return answer.sample(began=began, ended=time.monotonic())

    async def _engine_load(self) -> EngineLoad:
        if not self._target.metrics_url:
            return EngineLoad()
        await asyncio.sleep(self._load.level_s * _MIDDLE)
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=_METRICS_S) as client:
                page = await client.get(self._target.metrics_url)
        except httpx.HTTPError:  # a figure less; the load on the endpoint is what is measured
            return EngineLoad()
        return engine_metrics.read(page.text) if page.is_success else EngineLoad()

    def _client(self, number: int) -> httpx.AsyncClient:
        while number >= len(self._clients):
            key = self._target.api_key
            self._clients.append(
                httpx.AsyncClient(
                    trust_env=False,
                    timeout=httpx.Timeout(None, connect=_DIAL_S),
                    headers={"authorization": f"Bearer {key}"} if key else None,
                )
            )
        return self._clients[number]


def _said(body: bytes) -> str:
    """What a refusal says, in one line."""
    text = body.decode(errors="replace")
    with contextlib.suppress(ValueError, KeyError, TypeError):
        text = json.loads(text)["error"]["message"]
    return " ".join(str(text).split())[:_SAID_CHARS]


@dataclass(slots=True)
class _Answer:
    """One stream of events as it comes in."""

    first_at: float | None = None
    last_at: float = 0.0
    chunks: int = 0
    tokens: int | None = None
    error: str = ""
    is_whole: bool = False

    def take(self, line: str, *, at: float) -> None:
        """One line; only those with content count as tokens, and the engine's own count wins."""
        if not line.startswith("data:"):
            return
        event = line[5:].strip()
        if event == "[DONE]":
            self.is_whole = True
            return
        try:
            document: Any = json.loads(event)
        except ValueError:
            self.error = "an event that is no JSON"
            return
        if isinstance(document, Mapping):
            self._count(document, at)

    def sample(self, *, began: float, ended: float) -> Sample:
        """The finished sample."""
        error = self.error or ("" if self.is_whole else "the stream broke off")
        if not error and self.first_at is None:
            error = "an answer without content"
        first_at = self.first_at
        return Sample(
            took_s=ended - began,
            ttft_s=None if first_at is None else first_at - began,
            stream_s=0.0 if first_at is None else self.last_at - first_at,
            tokens=self.chunks if self.tokens is None else self.tokens,
            error=error,
        )

    def _count(self, document: Mapping[str, Any], at: float) -> None:
        if failure := document.get("error"):
            code = failure.get("code") if isinstance(failure, Mapping) else None
            self.error = f"an error in the stream ({code or 'no code'})"
        if usage := document.get("usage"):
            self.tokens = usage.get("completion_tokens")
        for choice in document.get("choices") or ():
            delta = choice.get("delta") or {}
            if delta.get("content") or delta.get("reasoning_content"):
                self.first_at = at if self.first_at is None else self.first_at
                self.last_at = at
                self.chunks += 1
