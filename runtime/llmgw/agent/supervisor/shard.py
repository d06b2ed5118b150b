"""One shard from order to end: which step follows which, and what must be true before it.

``orders`` drives it; every state follows the table in ``domain.replicas``. What must outlive the
agent is in the state file before the step that it describes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import httpx

from llmgw.agent.discovery import address
from llmgw.agent.engines.contract import Command, StopPlan
from llmgw.agent.supervisor import (
    ending,
    idling,
    launching,
    port_owner,
    processes,
    vigil,
    wording,
)
from llmgw.agent.supervisor.adoption import Record, StateFile
from llmgw.agent.supervisor.interviewing import HttpCheck
from llmgw.agent.supervisor.kinship import Census
from llmgw.agent.supervisor.output import Output
from llmgw.agent.supervisor.readiness import Readiness
from llmgw.agent.supervisor.telling import Standing
from llmgw.agent.supervisor.workdir import WorkDir
from llmgw.config.tending import SupervisorSettings
from llmgw.domain.replicas import FetchProgress, RunningShard, ShardReport, ShardSpec, ShardState
from llmgw.domain.work import ShardWork
from llmgw.errors import AlreadyHeld, Conflict, EngineFailed, Invalid
from llmgw.kit import logs, proctable
from llmgw.kit.clock import Clock
from llmgw.kit.proctable import Entry
from llmgw.kit.tasks import Tasks

REPORTED_LINES = 20
"""Newest lines of output in the report of a failure."""

_HUNG_STEP_S = 5.0
"""A hung engine finishes nothing, and while it is waited for it is still sent requests."""

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Handling:
    """What an engine's driver says about a running engine; no ``check``: it answers nobody."""

    stop_plan: StopPlan
    check: HttpCheck | None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all shards of one agent share."""

    node_id: str
    workdir: WorkDir
    settings: SupervisorSettings
    clock: Clock
    client: httpx.AsyncClient
    on_report: Callable[[ShardReport], None]
    measure: Callable[[SupervisedShard], Awaitable[ShardWork]]
    """What a shard has used so far."""


class SupervisedShard:
    """One start of a shard; a later start of the same id is a new one."""

    def __init__(self, spec: ShardSpec, *, around: Surroundings) -> None:
        """Begin as PENDING, with nothing running and nothing on disk."""
        self.spec = spec
        self._around = around
        self._tasks = Tasks(owner=f"shard {spec.shard_id}")
        self._standing = Standing(spec, node_id=around.node_id, on_report=around.on_report)
        self._output = Output(
            around.workdir.output / spec.shard_id, max_lines=around.settings.log_lines
        )
        self._file = StateFile(
            around.workdir.state_file(spec.shard_id),
            Record(spec=spec, boot_id=proctable.boot_id(), started_at=around.clock.wall()),
        )
        self._processes: list[processes.Process] = []
        self._handling = Handling(StopPlan(()), check=None)
        self._patience = launching.Patience(within_s=around.settings.rendezvous_timeout)
        self._finished = asyncio.Event()

    @property
    def state(self) -> ShardState:
        """Where it stands."""
        return self._standing.state

    @property
    def record(self) -> Record:
        """What the next agent would find of it."""
        return self._file.record

    @property
    def engine(self) -> processes.Process | None:
        """The process that is the shard; nothing before it was started."""
        return self._processes[-1] if self.record.is_launched else None

    @property
    def _is_loading(self) -> bool:
        return self.state is ShardState.LOADING

    @property
    def _is_being_ended(self) -> bool:
        return self.record.is_stopping or bool(self.record.failure)

    def members(self, census: Census) -> list[Entry]:
        """Its processes among these."""
        return [] if self.engine is None else self.engine.members(census)

    def running(self) -> RunningShard:
        """The shard as it is listed when the agent registers."""
        return wording.running(self.spec, self.state)

    def tell(self) -> None:
        """Report the present state (again); orders may arrive twice."""
        self._standing.tell()

    def ordered_again(self) -> None:
        """Its start was ordered once more: it says where it stands, and waits on for its leader."""
        self._patience.renew()
        self.tell()

    def tell_fetch(self, progress: FetchProgress) -> None:
        """Report a download; the state stays PENDING."""
        self._standing.tell_fetch(progress)

    async def launch(self, commands: Sequence[Command], *, handling: Handling) -> None:
        """Start the processes: PENDING to STARTING, or ``EngineFailed`` with nothing left running.

        Cancelled half-way it leaves what it started to ``stop``, or to the next agent.
        """
        if self.state is not ShardState.PENDING:
            raise Conflict(f"shard {self.spec.shard_id} is {self.state} and cannot be launched")
        if not commands:
            raise Invalid(f"shard {self.spec.shard_id} has no command to start")
        self._handling = handling
        self._file.begin()
        try:
            if handling.check is not None:
                port_owner.check_port_free(handling.check)
            await launching.launch(
                commands,
                spec=self.spec,
                spawn=self._spawn,
                patience=self._patience,
            )
        except (EngineFailed, AlreadyHeld, Invalid):
            await ending.everything(self._processes, mark=self._file.mark)
            raise
        self._file.save(is_launched=True)
        self._standing.move(ShardState.STARTING)
        self._watch()

    def adopt(self, record: Record, *, handling: Handling) -> bool:
        """Take over the engine of an earlier agent; false when it has ended."""
        found = [processes.adopt(one, mark=self._file.mark) for one in record.processes]
        if not record.is_launched or not found or found[-1] is None:
            for process in found:
                if process is not None:
                    process.release()
            return False
        self._file.record, self._handling = record, handling
        self._processes = [process for process in found if process is not None]
        self._standing.move(ShardState.STARTING)
        if record.is_draining or record.is_stopping:
            self._standing.move(ShardState.DRAINING)
            self._tasks.spawn("drain", self._tell_drained())
        self._watch()
        return True

    async def become_ready(self, *, budget_s: float) -> None:
        """Wait until the engine serves: LOADING, then READY, or FAILED once the budget is spent."""
        engine = self.engine
        if self.state is not ShardState.STARTING or engine is None:
            return
        self._standing.move(ShardState.LOADING)
        was_ready = self.record.ready_at is not None
        if was_ready:  # under an earlier agent: an engine that hangs by now has no time to start
            self._tasks.spawn("vigil", self._keep_vigil(engine))
        look = Readiness(
            self._handling.check,
            client=self._around.client,
            interval_s=self._around.settings.health_interval,
            alive_grace_s=self._around.settings.alive_grace,
            paused_s=math.inf if was_ready else self._around.settings.hang_timeout,
        )
        failure = await look.wait(engine, budget_s=budget_s, is_wanted=lambda: self._is_loading)
        if failure:
            await self.give_up(failure)
        elif failure is not None:
            self._file.save(ready_at=self._around.clock.wall())
            self._standing.move(ShardState.READY)
            if not was_ready:
                self._tasks.spawn("vigil", self._keep_vigil(engine))

    def drain(self) -> None:
        """Mark it as taking no new work; its processes go on. ``Conflict`` when nothing runs."""
        if self.state is ShardState.DRAINING:
            self.tell()
        elif self.state.is_live:
            self._file.save(is_draining=True)
            self._standing.move(ShardState.DRAINING)
            self._tasks.spawn("drain", self._tell_drained())
        else:
            raise Conflict(f"shard {self.spec.shard_id} is {self.state} and cannot be drained")

    async def stop(self) -> None:
        """End it by its driver's plan; ``EngineFailed`` when it survives even SIGKILL."""
        if self.state.is_final:
            return
        self._file.save(is_stopping=True)
        if self.engine is None:
            await ending.everything(self._processes, mark=self._file.mark)
            self._finish(ShardState.STOPPED)
            return
        if self.state is not ShardState.DRAINING:
            self._standing.move(ShardState.DRAINING)
        await ending.by_plan(self.engine, self._handling.stop_plan)
        await self._await_finish()

    async def give_up(self, failure: str, *, step_s: float = math.inf) -> None:
        """End a live engine that serves nobody: FAILED with the reason, once it is gone."""
        engine = self.engine
        if engine is None or not self.state.is_live or self.record.is_stopping:
            return
        # Written down first: an agent that is killed here leaves a verdict, not a new chance.
        self._file.save(failure=failure)
        await ending.by_plan(engine, self._handling.stop_plan, at_most_s=step_s)
        await self._await_finish()

    def fail(self, error: str) -> None:
        """A start that came to nothing: FAILED with the reason."""
        if self.state is ShardState.PENDING:
            self._finish(ShardState.FAILED, error=error)

    async def release(self) -> None:
        """Let go of the processes without touching them: the agent ends, the engines serve on."""
        await self._tasks.close()
        for process in self._processes:
            process.release()

    def _spawn(self, order: int, command: Command) -> processes.Process:
        try:
            output = self._output.file(order=order, name=command.name)
        except OSError as error:
            raise EngineFailed(f"{command.name}: its output has no place: {error}") from error
        process = processes.spawn(
            command, folder=self._around.workdir.path, output=output, mark=self._file.mark
        )
        self._processes.append(process)
        self._file.save(processes=tuple(one.identity for one in self._processes))
        _log.info(
            "process_started", shard=self.spec.shard_id, name=command.name, pid=process.identity.pid
        )
        return process

    def _watch(self) -> None:
        engine = self._processes[-1]
        engine.watch(lambda: self._exited(engine))
        for sidecar in self._processes[:-1]:
            sidecar.watch(self._sidecar_exited)

    def _exited(self, engine: processes.Process) -> None:
        self._tasks.spawn("exit", self._conclude(engine))

    def _sidecar_exited(self) -> None:
        if not self.state.is_final:
            _log.warning("sidecar_ended", shard=self.spec.shard_id)

    async def _conclude(self, engine: processes.Process) -> None:
        """After the engine's exit: end what it left behind, then tell how it ended."""
        await engine.end()
        await ending.sidecars(self._processes[:-1], may_finish=self.record.is_stopping)
        if self.record.is_stopping:
            self._finish(ShardState.STOPPED, exit_code=engine.exit_code)
        elif self.record.failure:
            # We ended it ourselves: its exit code tells nothing of the cause.
            self._finish(ShardState.FAILED, error=self.record.failure)
        else:
            error = wording.exit_sentence(engine.identity.name, engine.exit_code)
            if self._is_loading and self._handling.check is not None:
                error = port_owner.blamed(self._handling.check, error)
            self._finish(ShardState.FAILED, error=error, exit_code=engine.exit_code)

    async def _tell_drained(self) -> None:
        """Say that the engine has no request any more, so that nobody waits for nothing."""
        engine, check = self.engine, self._handling.check
        if engine is None or check is None or not check.request_metrics:
            return
        is_idle = await idling.until_idle(engine, check, client=self._around.client)
        if is_idle and not self._is_being_ended:
            self._standing.tell_drained()

    async def _keep_vigil(self, engine: processes.Process) -> None:
        """End an engine that hangs while it should serve; ``_conclude`` tells of it."""
        check, settings = self._handling.check, self._around.settings
        if check is None:
            return
        hung = await vigil.keep(
            engine,
            check,
            client=self._around.client,
            measure=lambda: self._around.measure(self),
            is_held=address.is_held,
            settings=settings,
        )
        if hung and self.state in {ShardState.LOADING, ShardState.READY}:
            _log.warning("engine_hung", shard=self.spec.shard_id, reason=hung)
            await self.give_up(hung, step_s=_HUNG_STEP_S)

    async def _await_finish(self) -> None:
        try:
            async with asyncio.timeout(ending.SIDECAR_STOP_S + 2 * processes.KILL_WAIT_S):
                await self._finished.wait()
        except TimeoutError:
            pids = ", ".join(str(one.identity.pid) for one in self._processes)
            raise EngineFailed(
                f"shard {self.spec.shard_id} survives SIGKILL (processes {pids}); "
                "they are stuck in the kernel, look at its log"
            ) from None

    def _finish(self, to: ShardState, *, error: str = "", exit_code: int | None = None) -> None:
        """The last state: the file goes, the reason and the newest output are told."""
        for process in self._processes:
            process.release()
        self._file.forget()
        is_failure = to is ShardState.FAILED
        tail = self._output.tail(REPORTED_LINES) if is_failure else ()
        self._standing.move(to, error=error, exit_code=exit_code, last_output=tail)
        self._finished.set()
