"""Tells a source apart and asks its place what belongs to it, as often as it takes."""

from __future__ import annotations

import httpx

from llmgw.agent.weights import hub as hubs
from llmgw.agent.weights import mirrors
from llmgw.agent.weights.http_failures import Setback
from llmgw.agent.weights.hub import Hub
from llmgw.agent.weights.remote_files import RemoteSet
from llmgw.agent.weights.retrying import Retries
from llmgw.errors import Unreachable


async def look_up(
    source: str, *, client: httpx.AsyncClient, hub: Hub, retries: Retries
) -> RemoteSet:
    """The files of a source; a plain address needs no question, and so no network."""
    found: list[RemoteSet] = []

    async def attempt() -> Setback | None:
        try:
            found.append(await _ask(source, client=client, hub=hub))
        except Unreachable as error:
            return Setback(error)
        return None

    await retries.run(attempt)
    return found[-1]


async def _ask(source: str, *, client: httpx.AsyncClient, hub: Hub) -> RemoteSet:
    if source.startswith("hf:"):
        return await hubs.look_up(source, client=client, hub=hub)
    return await mirrors.look_up(source, client=client)
