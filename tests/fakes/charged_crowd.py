"""Clients with a key that stream without pause, an engine that remembers each request, a store."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

import httpx

from llmgw.accounts.keys import KeyWish
from llmgw.config.settings import ServerSettings
from llmgw.domain.actors import Actor
from llmgw.kit.clock import SystemClock
from llmgw.serve import accounts
from tests.fakes.upstream import DONE, END, EVENTS, Upstream, chunk, event

PROMPT, COMPLETION = 7, 3
PRICE = {"prompt_per_1k": 1000, "completion_per_1k": 3000}
COST = PROMPT + 3 * COMPLETION
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}\n\n' % (
    PROMPT,
    COMPLETION,
)
ANN = Actor("ann", "cli")


async def make_key(store, **limits):
    """A key of the default project; its secret."""
    joined = accounts.joined(store, settings=ServerSettings(), clock=SystemClock())
    await joined.directory.found(org="Acme", team="blue", project="app", actor=ANN)
    wish = KeyWish(name="laptop", project_id="default", **limits)
    return (await joined.keys.create(wish, actor=ANN)).secret


async def limit_key(store, **limits):
    """Another limit of the one key that there is."""
    joined = accounts.joined(store, settings=ServerSettings(), clock=SystemClock())
    (key,) = await store.keys.all()
    await joined.directory.limit("key", key.key_id, limits, actor=ANN)


async def engine():
    """Streams three tokens, with pauses between, to whoever asks."""
    upstream = Upstream()
    steps = [step for word in ("a", "b", "c") for step in (chunk(event(word)), 0.03)]
    upstream.always(EVENTS, *steps, chunk(USAGE) + chunk(DONE) + END)
    await upstream.start()
    return upstream


def heard(upstream):
    """The ids of the requests that reached the engine, each as often as it came."""
    asked = [request for request in upstream.requests if request.line.startswith(b"POST")]
    return Counter(request.fields[b"x-request-id"][0].decode() for request in asked)


class ChargedCrowd:
    """Clients that each ask for one stream after the other; what became of each, by its id."""

    def __init__(self, url, *, key, clients=12):
        self._url = url
        self._key = key
        self._clients = clients
        self._numbers = itertools.count()
        self._is_over = False
        self.whole = set()
        self.broken = set()
        self.refused = {}

    async def __aenter__(self):
        limits = httpx.Limits(
            max_connections=self._clients, max_keepalive_connections=self._clients
        )
        self._http = httpx.AsyncClient(timeout=30, limits=limits, trust_env=False)
        self._tasks = [asyncio.create_task(self._ask_on()) for _ in range(self._clients)]
        return self

    async def __aexit__(self, *_):
        self._is_over = True
        try:
            async with asyncio.timeout(30):
                await asyncio.gather(*self._tasks)
        finally:
            await self._http.aclose()

    async def more(self, count, *, within_s=30):
        """Return once so many more were answered whole."""
        goal = len(self.whole) + count
        async with asyncio.timeout(within_s):
            while len(self.whole) < goal:  # noqa: ASYNC110 - a count of many
                await asyncio.sleep(0.02)

    async def _ask_on(self):
        while not self._is_over:
            await self._ask(f"crowd-{next(self._numbers)}")

    async def _ask(self, name):
        body = {"model": "sim", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        headers = {"authorization": f"Bearer {self._key}", "x-request-id": name}
        url, text = f"{self._url}/v1/chat/completions", ""
        try:
            async with self._http.stream("POST", url, json=body, headers=headers) as answer:
                async for piece in answer.aiter_text():
                    text += piece
                if answer.status_code != 200:
                    self.refused[name] = f"{answer.status_code} {text}"
                    await asyncio.sleep(0.1)
                    return
        except httpx.TransportError:
            self.broken.add(name)
            await asyncio.sleep(0.05)
            return
        (self.whole if "[DONE]" in text else self.broken).add(name)
