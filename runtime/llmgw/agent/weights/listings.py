"""One answer that lists files, read to its end, however long and slow its sender makes it.

``hub`` and ``mirrors`` ask through here. A list is kept in memory, so it has a bound where a model
file has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx

from llmgw.agent.weights import http_failures
from llmgw.domain import weights
from llmgw.errors import Invalid, Unreachable

MAX_BYTES = 32 * 1024 * 1024
"""Some hundred thousand files."""

WITHIN_S = 120.0
_TIMEOUT = httpx.Timeout(30.0)
_NOT_KEPT = {"content-encoding", "content-length", "transfer-encoding"}


async def ask(
    client: httpx.AsyncClient, url: str, *, headers: Mapping[str, str] = {}
) -> httpx.Response:
    """An answer with success; where requests are rationed, the next ration is waited for once.

    Raises ``Unreachable`` where another try may help, what the refusal means otherwise, and
    ``Invalid`` for what is no list of files.
    """
    response = await _answer(client, url, headers=headers)
    if response.status_code == httpx.codes.TOO_MANY_REQUESTS:
        await asyncio.sleep(http_failures.wait_s(response))
        response = await _answer(client, url, headers=headers)
    if not response.is_success:
        raise http_failures.refused(response, url=url)
    return response


async def _answer(
    client: httpx.AsyncClient, url: str, *, headers: Mapping[str, str]
) -> httpx.Response:
    """The whole answer, whatever its status."""
    try:
        async with asyncio.timeout(WITHIN_S):
            return await _read(client, url, headers=headers)
    except httpx.HTTPError as error:
        raise http_failures.unreachable(error, url=url) from error
    except httpx.InvalidURL as error:
        raise Invalid(f"{weights.shown(url)} is not a valid address: {error}") from error
    except TimeoutError:
        raise Unreachable(f"{weights.shown(url)} does not end within {WITHIN_S:g} s") from None


async def _read(
    client: httpx.AsyncClient, url: str, *, headers: Mapping[str, str]
) -> httpx.Response:
    async with client.stream("GET", url, headers=dict(headers), timeout=_TIMEOUT) as response:
        content = bytearray()
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > MAX_BYTES:
                raise Invalid(
                    f"{weights.shown(url)} is no list of files: "
                    f"it does not end after {MAX_BYTES >> 20} MiB"
                )
        kept = [(n, v) for n, v in response.headers.multi_items() if n not in _NOT_KEPT]
        return httpx.Response(
            response.status_code,
            headers=kept,
            content=bytes(content),
            request=response.request,
            history=response.history,
        )
