"""From a source in the catalog to a path on this node, each download made once however many ask.

``orders`` calls ``ensure`` before a launch, ``provision`` to have something here beforehand, and
``remove``. Several shards, and several agents that share a folder, wait for the same download; it
goes on while anybody waits, or once it was provisioned.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from llmgw.agent.discovery import storage
from llmgw.agent.weights import flights, shelf
from llmgw.agent.weights.fetch_orders import FetchOrders
from llmgw.agent.weights.flights import Flight, Ground
from llmgw.agent.weights.headroom import Headroom
from llmgw.agent.weights.holds import Holds
from llmgw.agent.weights.journeys import Journey, OnProgress
from llmgw.agent.weights.retrying import Retries
from llmgw.config.tending import WeightsSettings
from llmgw.domain import weights
from llmgw.domain.fetch_status import FetchState, FetchStatus
from llmgw.errors import Conflict, Invalid, LlmgwError, Unknown
from llmgw.kit import logs
from llmgw.kit.clock import Clock
from llmgw.kit.tasks import Tasks

_FOLDER_MODE = 0o755
_MOST_FAILURES = 100
_log = logs.get(__name__)


class Weights:
    """The model files of one node."""

    def __init__(
        self,
        *,
        folder: str,
        clock: Clock,
        settings: WeightsSettings = WeightsSettings(),
        token: Callable[[], str] = str,
        retries: Retries | None = None,
        ordered: FetchOrders | None = None,
    ) -> None:
        """Downloads go to ``folder``; an empty one means that nothing may be downloaded.

        ``token`` gives the hub's token when it is needed, and nothing when there is none.
        ``ordered`` is what somebody wants ahead, of an earlier agent too.
        """
        self._folder = Path(folder).absolute() if folder else None
        self._clock = clock
        is_shared = settings.shared
        self._ground = Ground(
            clock=clock,
            holds=Holds(is_shared=lambda at: is_shared or storage.is_shared(at), clock=clock),
            headroom=Headroom(keep_free_bytes=settings.keep_free),
            retries=retries or Retries(),
            hub_url=settings.hub_url,
            token=token,
        )
        self._ordered = ordered or FetchOrders()
        self._journeys: dict[Path, Journey] = {}
        self._failed: dict[Path, FetchStatus] = {}
        self._removals: dict[Path, asyncio.Event] = {}
        self._tasks = Tasks(owner="weights")

    def prepare(self) -> None:
        """Make the folder, so that a fresh node can report its disk; a failure is only told."""
        if self._folder is not None:
            try:
                self._folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
                shelf.empty_trash(self._folder)
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

    async def provision(self, source: str) -> FetchStatus:
        """Have a source fetched, whoever needs it later; asking again is free, or tries again.

        Raises ``Invalid`` for what is no remote source: that is not fetched.
        """
        target = self._target(source)
        if not await self._is_here(target):
            self._ordered.add(source)
            self._journey(source, target).is_provisioned = True
        return await self.standing(source)

    async def resume(self) -> None:
        """Go on with what an earlier agent was ordered to fetch and had not ended."""
        for source in self._ordered.all():
            try:
                stands = await self.provision(source)
            except LlmgwError as error:  # the settings are others by now
                _log.warning("fetch_refused", source=weights.shown(source), reason=error.message)
                self._ordered.drop(source)
                continue
            if stands.state is FetchState.PRESENT:
                self._ordered.drop(source)

    async def standing(self, source: str) -> FetchStatus:
        """How one remote source stands here."""
        target = self._target(source)
        on_disk = await asyncio.to_thread(_on_disk, source, target)
        if (journey := self._journeys.get(target)) is not None:
            return journey.status()
        if on_disk.state is FetchState.PRESENT:
            return on_disk
        return self._failed.get(target, on_disk)

    def status(self) -> tuple[FetchStatus, ...]:
        """Every download under way and every one that failed since; by name."""
        under_way = {target: journey.status() for target, journey in self._journeys.items()}
        found = {**self._failed, **under_way}
        return tuple(found[target] for target in sorted(found))

    def cancel(self, source: str) -> bool:
        """No longer provision a source; whether it was. What came is kept."""
        journey = self._journeys.get(self._target(source))
        self._ordered.drop(source)
        if journey is None or not journey.is_provisioned:
            return False
        journey.is_provisioned = False
        self._end_if_unwanted(journey)
        return True

    async def remove(self, path: str, *, sources_by_shard: Mapping[str, str]) -> bool:
        """Remove a download or the part of one, by path or name; false when it was not there.

        Raises ``Denied`` for what is not ours, ``Conflict`` for what a shard uses or somebody
        fetches; without a folder of ours nothing is removed. A shard that starts meanwhile waits
        and fetches it anew.
        """
        if self._folder is None:
            raise Conflict(f"{path} stays: this agent has no weights_dir, so nothing of it is ours")
        entry = shelf.checked(path, folder=self._folder)
        target = entry.with_name(shelf.whole_name(entry.name))
        _check_unused(target, sources_by_shard)
        if target in self._journeys or target in self._removals:
            raise Conflict(f"{entry.name} stays: it is being fetched or removed")
        gone = self._removals[target] = asyncio.Event()
        try:
            return await asyncio.to_thread(self._take_away, entry, target)
        except OSError as error:
            raise flights.disk_failure(error, entry) from error
        finally:
            del self._removals[target]
            gone.set()

    async def close(self) -> None:
        """End every download; what came is kept."""
        await self._tasks.close()

    def _take_away(self, entry: Path, target: Path) -> bool:
        shelf.check_no_link(entry)
        if not entry.exists():
            return False
        hold = self._ground.holds.take(target)
        if hold is None:
            raise Conflict(f"{entry.name} stays: another process fetches it")
        try:
            shelf.take_away(entry)
        finally:
            hold.release()
        _log.info("weights_removed", path=str(entry))
        return True

    def _target(self, source: str) -> Path:
        if not weights.is_remote(source):
            raise Invalid(f"{source} is not fetched: it is a path, or a name for the engine")
        weights.check(source)
        if self._folder is None:
            raise Invalid(f"{weights.shown(source)} needs a cache directory; set weights_dir")
        return self._folder / weights.cache_name(source)

    async def _is_here(self, target: Path) -> bool:
        """Whether it is here and stays: what is being removed is not."""
        while (removal := self._removals.get(target)) is not None:
            await removal.wait()
        return await asyncio.to_thread(target.exists)

    async def _fetched(self, source: str, *, on_progress: OnProgress) -> str:
        target = self._target(source)
        if not await self._is_here(target):
            await self._join(self._journey(source, target), on_progress)
        return await asyncio.to_thread(shelf.opened, target)

    def _journey(self, source: str, target: Path) -> Journey:
        """The download under way to there, begun if there is none."""
        if (found := self._journeys.get(target)) is not None:
            return found
        journey = Journey(source=source, target=target, now=self._clock.monotonic)
        journey.task = self._tasks.spawn(f"fetch {target.name}", self._travel(journey))
        self._journeys[target] = journey
        self._failed.pop(target, None)
        return journey

    async def _join(self, journey: Journey, on_progress: OnProgress) -> None:
        """Wait for the download; the last one who leaves ends it."""
        journey.watch(on_progress)
        try:
            failure = await asyncio.shield(journey.task)
        finally:
            journey.watchers.remove(on_progress)
            self._end_if_unwanted(journey)
        if failure is not None:
            raise failure

    def _end_if_unwanted(self, journey: Journey) -> None:
        if not journey.is_wanted and not journey.task.done():
            self._arrive(journey)
            journey.task.cancel()

    async def _travel(self, journey: Journey) -> LlmgwError | None:
        """The download itself; its failure is a value, because any number of callers raise it."""
        shown, path = weights.shown(journey.source), str(journey.target)
        _log.info("fetch_begins", source=shown, path=path)
        flight = Flight(
            source=journey.source, target=journey.target, ground=self._ground, tell=journey.heard
        )
        failure: LlmgwError | None = None
        try:
            await flight.fly()
        except LlmgwError as error:
            failure = error
            self._keep_failure(journey.target, journey.failed(error))
        finally:
            self._arrive(journey)
        self._ordered.drop(journey.source)  # not of one that is cut off: the next agent goes on
        _log.info("fetch_ended", path=path, error=failure and failure.message)
        return failure

    def _arrive(self, journey: Journey) -> None:
        if self._journeys.get(journey.target) is journey:
            del self._journeys[journey.target]

    def _keep_failure(self, target: Path, status: FetchStatus) -> None:
        """Failed stays failed, with its reason, until it is asked for again."""
        while len(self._failed) >= _MOST_FAILURES:
            del self._failed[next(iter(self._failed))]
        self._failed[target] = status


def _on_disk(source: str, target: Path) -> FetchStatus:
    shown = weights.shown(source)
    if not target.exists():
        came_bytes = shelf.came_bytes(target)
        return FetchStatus(shown, target.name, FetchState.ABSENT, done_bytes=came_bytes)
    size_bytes, path = shelf.size_bytes(target), shelf.opened(target)
    return FetchStatus(shown, target.name, FetchState.PRESENT, path, size_bytes, size_bytes)


def _local(source: str) -> str:
    """The path in full, since engines run in another folder than the agent."""
    path = Path(source).absolute()
    if not path.exists():
        raise Unknown(
            f"{source} is not on this node; copy it here, "
            "or give the model a source that agents can fetch"
        )
    return str(path)


def _check_unused(target: Path, sources_by_shard: Mapping[str, str]) -> None:
    for shard_id, source in sources_by_shard.items():
        if weights.is_remote(source):
            is_used = weights.cache_name(source) == target.name
        else:
            path = Path(os.path.normpath(Path(source).absolute()))
            is_used = weights.is_path(source) and (path == target or target in path.parents)
        if is_used:
            raise Conflict(f"{target.name} stays: shard {shard_id} uses it")
