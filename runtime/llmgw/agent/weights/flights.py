"""One download from the question what belongs to it to its name in the folder.

``fetching`` starts one a source and tells its callers of it; this knows of nobody who waits.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from llmgw.agent.weights import headroom, holds, hub, lookups, shelf
from llmgw.agent.weights.deliveries import Courier
from llmgw.agent.weights.headroom import Headroom
from llmgw.agent.weights.holds import Hold, Holds
from llmgw.agent.weights.remote_files import RemoteSet
from llmgw.agent.weights.retrying import Retries
from llmgw.agent.weights.sets import Delivery
from llmgw.domain import weights
from llmgw.domain.fetch_status import FetchState
from llmgw.errors import AlreadyHeld, DeadlinePassed, Exhausted, Internal, Invalid, LlmgwError
from llmgw.kit import logs, offloading
from llmgw.kit.clock import Clock

_CLAIM_INTERVAL_S = 0.25
_MOST_LOSSES = 3
_FOLDER_MODE = 0o755
_log = logs.get(__name__)

Tell = Callable[[FetchState, int, int | None], None]
"""Called with the state, the bytes so far, and the total where it is known."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What all downloads of a node share."""

    clock: Clock
    holds: Holds
    headroom: Headroom
    retries: Retries
    hub_url: str
    token: Callable[[], str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Flight:
    """One source on its way to its place."""

    source: str
    target: Path
    ground: Ground
    tell: Tell

    async def fly(self) -> None:
        """Fetch it, or wait until another process has.

        Raises ``LlmgwError``; what the disk refuses is translated.
        """
        try:
            self.target.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            for _ in range(_MOST_LOSSES):
                try:
                    return await self._once()
                except AlreadyHeld as error:  # its lease was taken over: the other one goes on
                    _log.warning("fetch_taken_over", path=str(self.target), error=error.message)
            raise DeadlinePassed(f"{self.target} is fetched by nobody for long enough; try again")
        except OSError as error:
            raise disk_failure(error, self.target) from error
        finally:
            self.ground.headroom.forget(self.target)

    async def _once(self) -> None:
        hold = await self._held()
        if hold is None:
            return
        beating = asyncio.create_task(_beat(hold), name=f"beat {self.target.name}")
        try:
            await self._fetch(hold)
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            hold.release()

    async def _held(self) -> Hold | None:
        """The right to fetch it, or nothing once another process has."""
        stall_s = self.ground.retries.stall_s
        seen_bytes, seen_at = -1, self.ground.clock.monotonic()
        while (hold := await self._taken()) is None:
            if (done := await asyncio.to_thread(shelf.came_bytes, self.target)) != seen_bytes:
                seen_bytes, seen_at = done, self.ground.clock.monotonic()
                self.tell(FetchState.WAITING, done, None)
            if self.ground.clock.monotonic() - seen_at > stall_s:
                raise DeadlinePassed(
                    f"another process holds {self.target}{holds.LOCK_SUFFIX} and adds nothing "
                    f"for {stall_s:g} s; end it, then try again"
                )
            await asyncio.sleep(_CLAIM_INTERVAL_S)
        if not self.target.exists():
            return hold
        hold.release()
        return None

    async def _taken(self) -> Hold | None:
        """The right to fetch it; one that came while this was cancelled is given up again."""
        return await offloading.to_the_end(
            lambda: self.ground.holds.take(self.target),
            give_back=lambda hold: hold.release() if hold is not None else None,
        )

    async def _fetch(self, hold: Hold) -> None:
        place = hub.at(self.ground.hub_url, token=self.ground.token())
        async with await asyncio.to_thread(_client) as client:
            self.tell(FetchState.LOOKING, shelf.came_bytes(self.target), None)
            wanted = await lookups.look_up(
                self.source, client=client, hub=place, retries=self.ground.retries
            )
            courier = Courier(client=client, hub=place, hold=hold, retries=self.ground.retries)
            done_bytes = await self._bring(wanted, courier=courier)
        self.tell(FetchState.PRESENT, done_bytes, done_bytes)

    async def _bring(self, wanted: RemoteSet, *, courier: Courier) -> int:
        if wanted.is_folder:
            delivery = Delivery(
                wanted=wanted,
                target=self.target,
                source=weights.shown(self.source),
                courier=courier,
                on_bytes=self._on_bytes,
                check_room=self._check_room,
            )
            return await delivery.bring()
        delivered = await courier.deliver(
            wanted.files[0], self.target, on_bytes=self._on_bytes, check_room=self._check_room
        )
        return delivered.size_bytes

    def _on_bytes(self, done_bytes: int, total_bytes: int | None) -> None:
        self.tell(FetchState.FETCHING, done_bytes, total_bytes)

    def _check_room(self, missing_bytes: int) -> None:
        self.ground.headroom.check(self.target, missing_bytes=missing_bytes)


async def _beat(hold: Hold) -> None:
    """Show that we live; a lost right is noticed where it matters, before the next block."""
    while True:
        await asyncio.sleep(holds.BEAT_S)
        try:
            await asyncio.to_thread(hold.beat)
        except LlmgwError:
            return


def _client() -> httpx.AsyncClient:
    """A client that trusts the authorities of the system too, where a company adds its own."""
    context = httpx.create_ssl_context()
    context.load_default_certs()
    return httpx.AsyncClient(follow_redirects=True, verify=context)


def disk_failure(error: OSError, target: Path) -> LlmgwError:
    """What an error of the disk means, and what to do."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        where = headroom.mount_point(target.parent)
        return Exhausted(
            f"the filesystem {where} is full ({error.strerror}): {target.name} does not fit; "
            "make room there or set weights_dir to a larger disk; what came is kept"
        )
    if error.errno == errno.EFBIG:
        return Exhausted(f"{target.name} is larger than a file may be there ({error.strerror})")
    if error.errno in {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOTDIR,
        errno.ENAMETOOLONG,
        errno.ELOOP,
    }:
        return Invalid(
            f"{target} cannot be written ({error.strerror}); "
            "let the agent's user write there, or set weights_dir"
        )
    return Internal(f"{target} cannot be written: {error}")
