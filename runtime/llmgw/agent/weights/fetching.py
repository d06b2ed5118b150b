"""From a source in the catalog to a path on this node, each download made once however many ask.

``orders`` calls ``ensure`` before a launch. Several shards, and several agents that share a folder,
wait for the same download; it goes on while anybody waits.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from llmgw.agent.weights import partials, transfers
from llmgw.domain import weights
from llmgw.domain.replicas import FetchProgress
from llmgw.errors import DeadlinePassed, Exhausted, Internal, Invalid, LlmgwError, Unknown
from llmgw.kit import logs
from llmgw.kit.clock import Clock
from llmgw.kit.tasks import Tasks

OnProgress = Callable[[FetchProgress], None]

PROGRESS_INTERVAL_S = 2.0
_CLAIM_INTERVAL_S = 0.25
STALL_S = 180.0
"""How long another process may hold a part without adding to it; longer than a transfer waits."""

_FOLDER_MODE = 0o755
_log = logs.get(__name__)


@dataclass(slots=True)
class _Flight:
    """One download under way, and who wants to hear of it."""

    source: str
    target: Path
    task: asyncio.Task[LlmgwError | None] = field(init=False)
    watchers: list[OnProgress] = field(default_factory=list)
    latest: FetchProgress | None = None
    reported_at: float | None = None


class Weights:
    """The model files of one node."""

    def __init__(self, *, folder: str, clock: Clock, stall_s: float = STALL_S) -> None:
        """Downloads go to ``folder``; an empty one means that nothing may be downloaded."""
        self._folder = Path(folder) if folder else None
        self._clock = clock
        self._stall_s = stall_s
        self._flights: dict[str, _Flight] = {}
        self._tasks = Tasks(owner="weights")

    def prepare(self) -> None:
        """Make the folder, so that a fresh node can report its disk; a failure is only told."""
        if self._folder is not None:
            try:
                self._folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            except OSError as error:
                _log.warning("weights_dir_not_made", path=str(self._folder), error=str(error))

    async def ensure(self, source: str, *, on_progress: OnProgress) -> str:
        """What the engine is to open, fetched first if it is remote.

        A name that is neither remote nor a path is returned as it is, for the engine to resolve.
        Raises what the download met, or ``Unknown`` for a path that is not on this node.
        """
        if not source:
            raise Invalid("the model has no source; give it a path, an address or hf:org/repo/file")
        if weights.is_remote(source):
            return await self._fetched(source, on_progress=on_progress)
        if not weights.is_path(source):
            return source
        return await asyncio.to_thread(_local, source)

    async def close(self) -> None:
        """End every download; what came is kept."""
        await self._tasks.close()

    async def _fetched(self, source: str, *, on_progress: OnProgress) -> str:
        if self._folder is None:
            raise Invalid(f"{weights.shown(source)} needs a cache directory; set weights_dir")
        if source.startswith("hf:") and not weights.names_a_file(source):
            raise Invalid(
                f"{source} names no file: write hf:org/repo/model.gguf, "
                "or the bare org/repo for an engine that downloads by itself"
            )
        target = self._folder / weights.cache_name(source)
        if await asyncio.to_thread(target.exists):
            return str(target)
        flight = self._flights.get(source) or self._take_off(source, target)
        await self._join(flight, on_progress)
        return str(target)

    def _take_off(self, source: str, target: Path) -> _Flight:
        flight = _Flight(source=source, target=target)
        flight.task = self._tasks.spawn(f"fetch {target.name}", self._fly(flight))
        self._flights[source] = flight
        return flight

    async def _join(self, flight: _Flight, on_progress: OnProgress) -> None:
        """Wait for the download; the last one who leaves ends it."""
        flight.watchers.append(on_progress)
        if flight.latest is not None:
            on_progress(flight.latest)
        try:
            failure = await asyncio.shield(flight.task)
        finally:
            flight.watchers.remove(on_progress)
            if not flight.watchers and not flight.task.done():
                self._land(flight)
                flight.task.cancel()
        if failure is not None:
            raise failure

    async def _fly(self, flight: _Flight) -> LlmgwError | None:
        """The download itself; its failure is a value, because any number of callers raise it."""
        _log.info("fetch_begins", source=weights.shown(flight.source), path=str(flight.target))
        try:
            await self._download(flight)
        except LlmgwError as error:
            failure: LlmgwError | None = error
        except OSError as error:
            failure = _disk_failure(error, flight.target)
        else:
            failure = None
        finally:
            self._land(flight)
        _log.info("fetch_ended", path=str(flight.target), error=failure and failure.message)
        return failure

    def _land(self, flight: _Flight) -> None:
        if self._flights.get(flight.source) is flight:
            del self._flights[flight.source]

    async def _download(self, flight: _Flight) -> None:
        flight.target.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        partial = await self._claimed(flight)
        if partial is None:
            return
        try:
            await self._transfer(flight, partial)
            await asyncio.to_thread(partial.finish)
        finally:
            partial.close()
        self._report(flight, partial.size_bytes, partial.size_bytes, is_last=True)

    async def _transfer(self, flight: _Flight, partial: partials.Partial) -> None:
        async with httpx.AsyncClient(follow_redirects=True) as client:
            await transfers.transfer(
                client=client,
                url=weights.download_url(flight.source),
                partial=partial,
                on_bytes=lambda done, total: self._report(flight, done, total),
            )

    async def _claimed(self, flight: _Flight) -> partials.Partial | None:
        """The part for us to fill, or nothing once another process has finished the file."""
        seen_bytes, seen_at = -1, self._clock.monotonic()
        while (partial := partials.claim(flight.target)) is None:
            if (done := partials.size_bytes(flight.target)) != seen_bytes:
                seen_bytes, seen_at = done, self._clock.monotonic()
                self._report(flight, done, None)
            if self._clock.monotonic() - seen_at > self._stall_s:
                raise DeadlinePassed(
                    f"another process holds {flight.target}{partials.PART_SUFFIX} and adds nothing "
                    f"to it for {self._stall_s:g} s; end it, then try again"
                )
            await asyncio.sleep(_CLAIM_INTERVAL_S)
        if not flight.target.exists():
            return partial
        partial.discard()
        partial.close()
        return None

    def _report(
        self, flight: _Flight, done: int, total: int | None, *, is_last: bool = False
    ) -> None:
        """Tell every watcher: the first time, the last time, and at most every two seconds."""
        now = self._clock.monotonic()
        is_due = flight.reported_at is None or now - flight.reported_at >= PROGRESS_INTERVAL_S
        if not is_due and not is_last:
            return
        shown = weights.shown(flight.source)
        progress = FetchProgress(source=shown, done_bytes=done, total_bytes=total)
        flight.latest, flight.reported_at = progress, now
        for watcher in list(flight.watchers):
            watcher(progress)


def _local(source: str) -> str:
    """The path in full, since engines run in another folder than the agent."""
    path = Path(source).absolute()
    if not path.exists():
        raise Unknown(
            f"{source} is not on this node; copy it here, "
            "or give the model a source that agents can fetch"
        )
    return str(path)


def _disk_failure(error: OSError, target: Path) -> LlmgwError:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return Exhausted(
            f"{target.parent} is full; make room there or set weights_dir to a larger disk"
        )
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG}:
        return Invalid(
            f"{target} cannot be written ({error.strerror}); "
            "let the agent's user write there, or set weights_dir"
        )
    return Internal(f"{target} cannot be written: {error}")
