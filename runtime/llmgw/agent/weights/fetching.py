"""From a source in the catalog to a path on this node, each download made once however many ask.

``orders`` calls ``ensure`` before a launch, ``provision`` to have something here beforehand, and
``remove``. Several shards, and several agents that share a folder, wait for the same download; it
goes on while anybody waits, or once it was provisioned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from llmgw.agent.discovery import storage
from llmgw.agent.weights import flights, shelf
from llmgw.agent.weights.fetch_status import FetchState, FetchStatus
from llmgw.agent.weights.flights import Flight, Ground
from llmgw.agent.weights.headroom import Headroom
from llmgw.agent.weights.holds import Holds
from llmgw.agent.weights.paces import Pace, eta_s
from llmgw.agent.weights.retrying import Retries
from llmgw.agent.weights.shelf import Item
from llmgw.config.settings import WeightsSettings
from llmgw.domain import weights
from llmgw.domain.replicas import FetchProgress
from llmgw.errors import Conflict, Invalid, LlmgwError, Unknown
from llmgw.kit import logs
from llmgw.kit.clock import Clock
from llmgw.kit.tasks import Tasks

OnProgress = Callable[[FetchProgress], None]

PROGRESS_INTERVAL_S = 2.0
_FOLDER_MODE = 0o755
_MOST_FAILURES = 100
_log = logs.get(__name__)


@dataclass(slots=True)
class _Journey:
    """A download under way, and who wants to hear of it."""

    source: str
    target: Path
    task: asyncio.Task[LlmgwError | None] = field(init=False)
    watchers: list[OnProgress] = field(default_factory=list)
    is_provisioned: bool = False
    state: FetchState = FetchState.LOOKING
    done_bytes: int = 0
    total_bytes: int | None = None
    reported_at: float | None = None
    pace: Pace = field(default_factory=Pace)


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
        stall_s: float = flights.STALL_S,
    ) -> None:
        """Downloads go to ``folder``; an empty one means that nothing may be downloaded.

        ``token`` gives the hub's token when it is needed, and nothing when there is none.
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
            stall_s=stall_s,
        )
        self._journeys: dict[str, _Journey] = {}
        self._failed: dict[str, FetchStatus] = {}
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

    def provision(self, source: str) -> FetchStatus:
        """Have a source fetched, whoever needs it later; asking again is free, or tries again.

        Raises ``Invalid`` for what is no remote source: that is not fetched.
        """
        target = self._target(source)
        if not target.exists():
            journey = self._journeys.get(source) or self._set_out(source, target)
            journey.is_provisioned = True
        return self.standing(source)

    def standing(self, source: str) -> FetchStatus:
        """How one remote source stands here."""
        target = self._target(source)
        journey = self._journeys.get(source)
        if journey is not None:
            return self._under_way(journey)
        shown, name = weights.shown(source), target.name
        if target.exists():
            size_bytes = shelf.size_bytes(target)
            path = shelf.opened(target)
            return FetchStatus(shown, name, FetchState.PRESENT, path, size_bytes, size_bytes)
        came_bytes = shelf.came_bytes(target)
        absent = FetchStatus(shown, name, FetchState.ABSENT, done_bytes=came_bytes)
        return self._failed.get(source, absent)

    def status(self) -> tuple[FetchStatus, ...]:
        """Every download under way and every one that failed since; by name."""
        found = [self._under_way(journey) for journey in self._journeys.values()]
        known = {status.name for status in found}
        found += [status for status in self._failed.values() if status.name not in known]
        return tuple(sorted(found, key=lambda status: status.name))

    def cancel(self, source: str) -> bool:
        """No longer provision a source; whether it was. What came is kept."""
        journey = self._journeys.get(source)
        if journey is None or not journey.is_provisioned:
            return False
        journey.is_provisioned = False
        self._leave(journey)
        return True

    async def stock(self) -> tuple[Item, ...]:
        """All that downloads made here, parts too."""
        return () if self._folder is None else await asyncio.to_thread(shelf.stock, self._folder)

    async def unnamed(self, sources: Iterable[str]) -> tuple[Item, ...]:
        """What none of the sources names, parts too, save what is being fetched; for a person.

        Nothing of it is ever removed but by ``remove``.
        """
        wanted = {weights.cache_name(source) for source in sources if weights.is_remote(source)}
        wanted |= {journey.target.name for journey in self._journeys.values()}
        return tuple(item for item in await self.stock() if item.name not in wanted)

    async def remove(self, path: str, *, sources_by_shard: Mapping[str, str]) -> bool:
        """Remove a download or the part of one, by path or name; false when it was not there.

        Raises ``Denied`` for what is not ours, ``Conflict`` for what a shard uses or somebody
        fetches; without a folder of ours nothing is removed.
        """
        if self._folder is None:
            raise Conflict(f"{path} stays: this agent has no weights_dir, so nothing of it is ours")
        entry = await asyncio.to_thread(shelf.checked, path, folder=self._folder)
        target = entry.with_name(shelf.whole_name(entry.name))
        _check_unused(target, sources_by_shard)
        if any(journey.target == target for journey in self._journeys.values()):
            raise Conflict(f"{entry.name} stays: it is being fetched")
        try:
            return await asyncio.to_thread(self._take_away, entry, target)
        except OSError as error:
            raise flights.disk_failure(error, entry) from error

    async def close(self) -> None:
        """End every download; what came is kept."""
        await self._tasks.close()

    def _take_away(self, entry: Path, target: Path) -> bool:
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

    async def _fetched(self, source: str, *, on_progress: OnProgress) -> str:
        target = self._target(source)
        if not await asyncio.to_thread(target.exists):
            journey = self._journeys.get(source) or self._set_out(source, target)
            await self._join(journey, on_progress)
        return await asyncio.to_thread(shelf.opened, target)

    def _set_out(self, source: str, target: Path) -> _Journey:
        journey = _Journey(source=source, target=target)
        journey.task = self._tasks.spawn(f"fetch {target.name}", self._travel(journey))
        self._journeys[source] = journey
        self._failed.pop(source, None)
        return journey

    async def _join(self, journey: _Journey, on_progress: OnProgress) -> None:
        """Wait for the download; the last one who leaves ends it."""
        journey.watchers.append(on_progress)
        if journey.reported_at is not None:
            on_progress(_progress(journey))
        try:
            failure = await asyncio.shield(journey.task)
        finally:
            journey.watchers.remove(on_progress)
            self._leave(journey)
        if failure is not None:
            raise failure

    def _leave(self, journey: _Journey) -> None:
        """End a download that nobody waits for any more."""
        if not journey.watchers and not journey.is_provisioned and not journey.task.done():
            self._arrive(journey)
            journey.task.cancel()

    async def _travel(self, journey: _Journey) -> LlmgwError | None:
        """The download itself; its failure is a value, because any number of callers raise it."""
        shown = weights.shown(journey.source)
        _log.info("fetch_begins", source=shown, path=str(journey.target))
        flight = Flight(
            source=journey.source,
            target=journey.target,
            ground=self._ground,
            tell=lambda state, done, total: self._heard(journey, state, (done, total)),
        )
        failure: LlmgwError | None = None
        try:
            await flight.fly()
        except LlmgwError as error:
            failure = error
            self._keep_failure(journey, error)
        finally:
            self._arrive(journey)
        _log.info("fetch_ended", path=str(journey.target), error=failure and failure.message)
        return failure

    def _arrive(self, journey: _Journey) -> None:
        if self._journeys.get(journey.source) is journey:
            del self._journeys[journey.source]

    def _keep_failure(self, journey: _Journey, error: LlmgwError) -> None:
        """Failed stays failed, with its reason, until it is asked for again."""
        while len(self._failed) >= _MOST_FAILURES:
            del self._failed[next(iter(self._failed))]
        self._failed[journey.source] = FetchStatus(
            source=weights.shown(journey.source),
            name=journey.target.name,
            state=FetchState.FAILED,
            done_bytes=journey.done_bytes,
            total_bytes=journey.total_bytes,
            error=error.message,
        )

    def _under_way(self, journey: _Journey) -> FetchStatus:
        rate = journey.pace.rate_bytes_per_s()
        return FetchStatus(
            source=weights.shown(journey.source),
            name=journey.target.name,
            state=journey.state,
            done_bytes=journey.done_bytes,
            total_bytes=journey.total_bytes,
            rate_bytes_per_s=rate,
            eta_s=eta_s(done_bytes=journey.done_bytes, total_bytes=journey.total_bytes, rate=rate),
        )

    def _heard(self, journey: _Journey, state: FetchState, came: tuple[int, int | None]) -> None:
        """Tell every watcher: the first time, the last time, and at most every two seconds."""
        journey.state, (journey.done_bytes, journey.total_bytes) = state, came
        now = self._clock.monotonic()
        is_due = journey.reported_at is None or now - journey.reported_at >= PROGRESS_INTERVAL_S
        if state is FetchState.LOOKING or not (is_due or state is FetchState.PRESENT):
            return
        journey.reported_at = now
        journey.pace.note(done_bytes=journey.done_bytes, at_s=now)
        for watcher in list(journey.watchers):
            watcher(_progress(journey))


def _progress(journey: _Journey) -> FetchProgress:
    return FetchProgress(
        source=weights.shown(journey.source),
        done_bytes=journey.done_bytes,
        total_bytes=journey.total_bytes,
    )


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
            path = Path(source)
            is_used = weights.is_path(source) and (path == target or target in path.parents)
        if is_used:
            raise Conflict(f"{target.name} stays: shard {shard_id} uses it")
