"""Brings one file under its name: resumed as often as it takes, compared with its digest, renamed.

``fetching`` calls it for a source of one file, ``sets`` for each file of a set.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import httpx

from llmgw.agent.weights import partials, transfers
from llmgw.agent.weights.digests import Digest
from llmgw.agent.weights.holds import Hold
from llmgw.agent.weights.hub import Hub
from llmgw.agent.weights.partials import Partial
from llmgw.agent.weights.remote_files import RemoteFile
from llmgw.agent.weights.retrying import Retries
from llmgw.agent.weights.transfers import CheckRoom, OnBytes, Request
from llmgw.domain import weights
from llmgw.errors import Invalid
from llmgw.kit import offloading


@dataclass(frozen=True, slots=True)
class Delivered:
    """What lies under the name now, as far as its source told."""

    size_bytes: int
    digest: Digest | None
    validator: str


@dataclass(frozen=True, slots=True)
class Courier:
    """What all files of one download have in common."""

    client: httpx.AsyncClient
    hub: Hub
    hold: Hold
    retries: Retries

    async def deliver(
        self, file: RemoteFile, target: Path, *, on_bytes: OnBytes, check_room: CheckRoom
    ) -> Delivered:
        """Fetch a file and give it its name; ``Invalid`` when its content is not what it must be.

        A file that was put together from several tries and is wrong is fetched once more from its
        beginning; one that came in one piece is wrong at its source.
        """
        partial = await offloading.to_the_end(
            lambda: Partial(target, hold=self.hold), give_back=Partial.close
        )
        request = Request(
            client=self.client,
            file=file,
            headers=self.hub.headers if self.hub.owns(file.url) else {},
            partial=partial,
            on_bytes=on_bytes,
            check_room=check_room,
        )
        try:
            wrong = await self._fill(request)
            if wrong is not None and partial.was_resumed:
                await asyncio.to_thread(partial.restart, validator="", digest=file.digest)
                wrong = await self._fill(request)
            if wrong is not None:
                await asyncio.to_thread(partials.discard, target)
                raise wrong
            await offloading.to_the_end(partial.finish)
        finally:
            partial.close()
            if not partial.size_bytes:
                partials.discard(target)
        return Delivered(partial.size_bytes, partial.wanted, partial.validator)

    async def _fill(self, request: Request) -> Invalid | None:
        """Bring all bytes; tells what is wrong with them, if anything is."""
        partial, file = request.partial, request.file
        await self.retries.run(
            lambda: transfers.attempt(request), reached=lambda: partial.size_bytes
        )
        if partial.digest() == partial.wanted:
            return None
        wanted, came = partial.wanted, partial.digest()
        return Invalid(
            f"{weights.shown(file.url)} is not what its source says: "
            f"{came.shown if came else '?'} came and {wanted.shown if wanted else '?'} is published"
            f" ({wanted.algorithm if wanted else '?'}); what came is thrown away"
        )
