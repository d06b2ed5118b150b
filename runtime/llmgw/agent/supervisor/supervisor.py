"""All shards of one node: new ones, those found again after a restart, and what they printed.

``orders`` asks it for shards and drives them; it starts nothing by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import httpx

from llmgw.agent.supervisor import adoption, cgroups, output, processes, wording
from llmgw.agent.supervisor.adoption import Record
from llmgw.agent.supervisor.interviewing import HttpCheck
from llmgw.agent.supervisor.kinship import Census
from llmgw.agent.supervisor.output import Output
from llmgw.agent.supervisor.shard import (
    REPORTED_LINES,
    Handling,
    SupervisedShard,
    Surroundings,
)
from llmgw.agent.supervisor.workdir import WorkDir
from llmgw.config.tending import SupervisorSettings
from llmgw.domain.names import SHARD_ID
from llmgw.domain.replicas import ShardReport, ShardSpec, ShardState
from llmgw.domain.work import ShardWork
from llmgw.errors import Conflict, Invalid, Unknown
from llmgw.kit import logs, proctable
from llmgw.kit.clock import Clock
from llmgw.kit.tasks import Tasks

_TRIM_INTERVAL_S = 2.0
_LEAST_BUDGET_S = 30.0
"""An adopted engine gets at least this long to answer, however old its start is."""

_log = logs.get(__name__)


GpuUtilization = Callable[[], Awaitable[Mapping[int, int]]]
"""Percent by card index, read now or a moment ago; a card that could not be read is left out."""


async def no_cards() -> Mapping[int, int]:
    """A node that knows of no card."""
    return {}


@dataclass(frozen=True, slots=True)
class Adopted:
    """A shard found again, and how its earlier agent left it."""

    shard: SupervisedShard
    budget_s: float
    is_stopping: bool
    failure: str
    """Why its earlier agent was ending it; empty when it was not."""


class Supervisor:
    """The shards of one agent by their ids, ended ones included for a while."""

    def __init__(
        self,
        *,
        node_id: str,
        settings: SupervisorSettings,
        clock: Clock,
        on_report: Callable[[ShardReport], None],
        gpu_utilization: GpuUtilization = no_cards,
    ) -> None:
        """Take the work folder; ``AlreadyHeld`` while another agent has it.

        ``Unsupported`` where nobody can see processes.
        """
        proctable.check_readable()
        self._gpu_utilization = gpu_utilization
        self._around = Surroundings(
            node_id=node_id,
            workdir=WorkDir(settings.work_dir),
            settings=settings,
            clock=clock,
            # Engines are neighbours: no proxy of the environment stands between.
            client=httpx.AsyncClient(
                trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
            ),
            on_report=on_report,
            measure=self._measured,
        )
        self._shards: dict[str, SupervisedShard] = {}
        self._tasks = Tasks(owner="supervisor")

    def create(self, spec: ShardSpec) -> SupervisedShard:
        """A new PENDING shard; ``Conflict`` while one of that id has not ended."""
        if SHARD_ID.fullmatch(spec.shard_id) is None:
            raise Invalid(f"{spec.shard_id!r} is no shard id")
        held = self._shards.pop(spec.shard_id, None)
        if held is not None and not held.state.is_final:
            self._shards[spec.shard_id] = held
            raise Conflict(f"shard {spec.shard_id} is {held.state} already")
        shard = SupervisedShard(spec, around=self._around)
        self._shards[spec.shard_id] = shard
        self._forget_ended()
        return shard

    def get(self, shard_id: str) -> SupervisedShard | None:
        """The shard of that id, or nothing when it was never here or ended long ago."""
        return self._shards.get(shard_id)

    def unended(self) -> tuple[SupervisedShard, ...]:
        """Shards that run or are about to."""
        return tuple(one for one in self._shards.values() if not one.state.is_final)

    async def work(self) -> tuple[ShardWork, ...]:
        """What every live shard has used so far, found in one look at all processes."""
        live = [one for one in self._shards.values() if one.state.is_live]
        if not live:
            return ()
        percents = await self._gpu_utilization()
        census = await asyncio.to_thread(Census)
        return tuple(_work(shard, census=census, percents=percents) for shard in live)

    def tell_absent(
        self,
        shard_id: str,
        *,
        state: ShardState,
        replica_id: str = "",
        error: str = "",
        last_output: tuple[str, ...] = (),
    ) -> None:
        """Report on a shard that is not kept here."""
        self._around.on_report(
            ShardReport(
                node_id=self._around.node_id,
                replica_id=replica_id,
                shard_id=shard_id,
                state=state,
                error=error,
                last_output=last_output,
            )
        )

    async def recover(self, handling: Callable[[ShardSpec], Handling]) -> tuple[Adopted, ...]:
        """Adopt every engine that an earlier agent left alive, and clear away what it left dead."""
        adopted: list[Adopted] = []
        for shard_id, path in self._around.workdir.state_files().items():
            record = adoption.load(path, shard_id=shard_id)
            if record is None:
                await self._clear(shard_id, None, check=None)
                continue
            handled = handling(record.spec)
            found = self._adopt(record, handled)
            if found is None:
                await self._clear(shard_id, record, check=handled.check)
            else:
                adopted.append(found)
        await self._clear_groups()
        self._forget_ended()
        self._tasks.spawn("trim", self._trim_forever())
        return tuple(adopted)

    def log_sources(self) -> tuple[str, ...]:
        """Shards of which output can be read, ended ones included."""
        return output.sources(self._around.workdir.output)

    def log_tail(self, shard_id: str, lines: int) -> tuple[str, ...]:
        """The newest lines of a shard, oldest first; ``Unknown`` when there is no output of it."""
        if shard_id not in self.log_sources():
            raise Unknown(f"this node has no output of {shard_id!r}")
        return self._output(shard_id).tail(lines)

    async def close(self) -> None:
        """Let go of everything; engines that run go on running."""
        await self._tasks.close()
        for shard in self._shards.values():
            await shard.release()
        await self._around.client.aclose()
        self._around.workdir.close()

    def _adopt(self, record: Record, handled: Handling) -> Adopted | None:
        if record.boot_id != proctable.boot_id():
            return None
        shard = SupervisedShard(record.spec, around=self._around)
        if not shard.adopt(record, handling=handled):
            return None
        self._shards[record.spec.shard_id] = shard
        budget_s = adoption.startup_budget_s(
            record, now=self._around.clock.wall(), at_least_s=_LEAST_BUDGET_S
        )
        _log.info("shard_adopted", shard=record.spec.shard_id, pid=record.processes[-1].pid)
        return Adopted(
            shard=shard,
            budget_s=budget_s,
            is_stopping=record.is_stopping,
            failure=record.failure,
        )

    async def _clear(
        self, shard_id: str, record: Record | None, *, check: HttpCheck | None
    ) -> None:
        """End what is left of a shard whose engine is gone, half started, or not known any more."""
        path = self._around.workdir.state_file(shard_id)
        is_this_boot = record is not None and record.boot_id == proctable.boot_id()
        if record is not None and is_this_boot:
            for identity in reversed(record.processes):
                await processes.sweep(identity, mark=str(path))
        await processes.sweep(None, mark=str(path))
        adoption.remove(path)
        _log.warning("shard_cleared", shard=shard_id, is_damaged=record is None)
        if record is not None:
            self._tell_cleared(shard_id, record, check=check)

    async def _clear_groups(self) -> None:
        """End what is left in the control groups of shards that nobody knows any more."""
        for shard_id in await asyncio.to_thread(cgroups.shards):
            if shard_id not in self._shards:
                mark = str(self._around.workdir.state_file(shard_id))
                await processes.sweep(None, mark=mark)

    def _tell_cleared(self, shard_id: str, record: Record, *, check: HttpCheck | None) -> None:
        """An end that was asked for is none to explain; any other is told with its output."""
        replica_id = record.spec.replica_id
        if record.is_stopping:
            self.tell_absent(shard_id, state=ShardState.STOPPED, replica_id=replica_id)
            return
        self.tell_absent(
            shard_id,
            state=ShardState.FAILED,
            replica_id=replica_id,
            error=record.failure or wording.ended_unseen(record, check),
            last_output=self._output(shard_id).tail(REPORTED_LINES),
        )

    async def _measured(self, shard: SupervisedShard) -> ShardWork:
        percents = await self._gpu_utilization()
        census = await asyncio.to_thread(Census)
        return _work(shard, census=census, percents=percents)

    async def _trim_forever(self) -> None:
        while True:
            await asyncio.to_thread(self._trim_all)
            await asyncio.sleep(_TRIM_INTERVAL_S)

    def _trim_all(self) -> None:
        try:
            shard_ids = self.log_sources()
        except OSError as error:
            _log.warning("output_not_trimmed", error=str(error))
            return
        for shard_id in shard_ids:
            try:
                self._output(shard_id).trim(max_bytes=self._around.settings.max_log_bytes)
            except OSError as error:
                _log.warning("output_not_trimmed", shard=shard_id, error=str(error))

    def _output(self, shard_id: str) -> Output:
        folder = self._around.workdir.output / shard_id
        return Output(folder, max_lines=self._around.settings.log_lines)

    def _forget_ended(self) -> None:
        """Keep the newest ended shards only; ids are never used again, so they would pile up."""
        ended = [shard_id for shard_id, one in self._shards.items() if one.state.is_final]
        for shard_id in ended[: -output.KEPT_SHARDS]:
            del self._shards[shard_id]
        living = [one.spec.shard_id for one in self.unended()]
        output.forget_old(self._around.workdir.output, living=living)


def _work(shard: SupervisedShard, *, census: Census, percents: Mapping[int, int]) -> ShardWork:
    busy = [percents[index] for index in shard.spec.gpu_indices if index in percents]
    members = shard.members(census)
    waits = [waited for one in members if (waited := proctable.waited_s(one.pid)) is not None]
    return ShardWork(
        shard_id=shard.spec.shard_id,
        cpu_time_s=sum(one.cpu_s for one in members),
        gpu_utilization_percent=max(busy, default=None),
        cpu_wait_s=sum(waits) if waits else None,
    )
