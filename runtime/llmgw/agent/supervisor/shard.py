"""One shard from order to end: its processes, its state, and a report of every change.

``orders`` drives it; every state follows the table in ``domain.replicas``. What must outlive the
agent is in the state file before the step that it describes.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import httpx

from llmgw.agent.engines.contract import Command, StopPlan
from llmgw.agent.supervisor import (
    adoption,
    idling,
    launching,
    processes,
    proctable,
    readiness,
    vigil,
    wording,
)
from llmgw.agent.supervisor.adoption import Record
from llmgw.agent.supervisor.output import Output
from llmgw.agent.supervisor.readiness import HttpCheck, Readiness
from llmgw.agent.supervisor.workdir import WorkDir
from llmgw.config.settings import SupervisorSettings
from llmgw.domain.replicas import (
    FetchProgress,
    RunningShard,
    ShardReport,
    ShardSpec,
    ShardState,
    step,
)
from llmgw.errors import AlreadyHeld, Conflict, EngineFailed, Invalid
from llmgw.kit import logs
from llmgw.kit.clock import Clock
from llmgw.kit.tasks import Tasks

REPORTED_LINES = 20
"""Newest lines of output in the report of a failure."""

_SIDECAR_STOP_S = 5.0
_HUNG_STEP_S = 5.0
"""A hung engine finishes nothing, and while it is waited for it is still sent requests."""

_FIRST_LOOK_S = 0.1
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all shards of one agent share."""

    node_id: str
    workdir: WorkDir
    settings: SupervisorSettings
    clock: Clock
    client: httpx.AsyncClient
    on_report: Callable[[ShardReport], None]


class SupervisedShard:
    """One start of a shard; a later start of the same id is a new one."""

    def __init__(self, spec: ShardSpec, *, around: Surroundings) -> None:
        """Begin as PENDING, with nothing running and nothing on disk."""
        self.spec = spec
        self.state = ShardState.PENDING
        self._around = around
        self._tasks = Tasks(owner=f"shard {spec.shard_id}")
        self._state_file = around.workdir.state_file(spec.shard_id)
        self._output = Output(
            around.workdir.output / spec.shard_id, max_lines=around.settings.log_lines
        )
        self._record = Record(
            spec=spec, boot_id=proctable.boot_id(), started_at=around.clock.wall()
        )
        self._processes: list[processes.Process] = []
        self._stop_plan = StopPlan(())
        self._check: HttpCheck | None = None
        self._failure = ""
        self._latest = self._report(ShardState.PENDING)
        self._finished = asyncio.Event()

    @property
    def engine(self) -> processes.Process | None:
        """The process that is the shard; nothing before it was started."""
        return self._processes[-1] if self._record.is_launched else None

    @property
    def _is_loading(self) -> bool:
        return self.state is ShardState.LOADING

    def running(self) -> RunningShard:
        """The shard as it is listed when the agent registers."""
        return wording.running(self.spec, self.state)

    def tell(self) -> None:
        """Report the present state (again); orders may arrive twice."""
        self._around.on_report(self._latest)

    def tell_fetch(self, progress: FetchProgress) -> None:
        """Report a download; the state stays PENDING."""
        if self.state is ShardState.PENDING:
            self._around.on_report(replace(self._latest, fetch=progress))

    async def launch(
        self, commands: Sequence[Command], *, stop_plan: StopPlan, check: HttpCheck | None
    ) -> None:
        """Start the processes: PENDING to STARTING, or ``EngineFailed`` with nothing left running.

        Cancelled half-way it leaves what it started to ``stop``, or to the next agent.
        """
        if self.state is not ShardState.PENDING:
            raise Conflict(f"shard {self.spec.shard_id} is {self.state} and cannot be launched")
        if not commands:
            raise Invalid(f"shard {self.spec.shard_id} has no command to start")
        self._stop_plan, self._check = stop_plan, check
        self._save(self._record)
        try:
            if check is not None:
                readiness.check_port_free(check)
            await launching.launch(
                commands,
                spec=self.spec,
                spawn=self._spawn,
                rendezvous_timeout_s=self._around.settings.rendezvous_timeout,
            )
        except (EngineFailed, AlreadyHeld, Invalid):
            await self._end_all()
            raise
        self._save(replace(self._record, is_launched=True))
        self._move(ShardState.STARTING)
        self._watch()

    def adopt(self, record: Record, *, stop_plan: StopPlan, check: HttpCheck | None) -> bool:
        """Take over the engine of an earlier agent; false when it has ended."""
        found = [processes.adopt(one, mark=str(self._state_file)) for one in record.processes]
        if not record.is_launched or not found or found[-1] is None:
            for process in found:
                if process is not None:
                    process.release()
            return False
        self._record, self._stop_plan, self._check = record, stop_plan, check
        self._processes = [process for process in found if process is not None]
        self._move(ShardState.STARTING)
        if record.is_draining or record.is_stopping:
            self._move(ShardState.DRAINING)
            self._tasks.spawn("drain", self._tell_drained())
        self._watch()
        return True

    async def become_ready(self, *, budget_s: float) -> None:
        """Wait until the engine serves: LOADING, then READY, or FAILED once the budget is spent.

        The first look comes at once, so that an adopted engine at work is READY without a pause.
        """
        engine = self.engine
        if self.state is not ShardState.STARTING or engine is None:
            return
        self._move(ShardState.LOADING)
        look = Readiness(
            self._check,
            client=self._around.client,
            alive_grace_s=self._around.settings.alive_grace,
        )
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + budget_s
        pause_s = min(_FIRST_LOOK_S, self._around.settings.health_interval)
        while problem := await look.problem(engine):
            left_s = give_up_at - loop.time()
            if left_s <= 0:
                await self._give_up(f"not ready within {budget_s:g} s: {problem}")
                return
            if await engine.wait(timeout_s=min(pause_s, left_s)) or not self._is_loading:
                return
            pause_s = min(pause_s * 1.5, self._around.settings.health_interval)
        if self._is_loading and not engine.has_ended:
            self._save(replace(self._record, ready_at=self._around.clock.wall()))
            self._move(ShardState.READY)
            self._tasks.spawn("vigil", self._keep_vigil(engine))

    def drain(self) -> None:
        """Mark it as taking no new work; its processes go on. ``Conflict`` when nothing runs."""
        if self.state is ShardState.DRAINING:
            self.tell()
        elif self.state.is_live:
            self._save(replace(self._record, is_draining=True))
            self._move(ShardState.DRAINING)
            self._tasks.spawn("drain", self._tell_drained())
        else:
            raise Conflict(f"shard {self.spec.shard_id} is {self.state} and cannot be drained")

    async def stop(self) -> None:
        """End it by its driver's plan; ``EngineFailed`` when it survives even SIGKILL."""
        if self.state.is_final:
            return
        self._save(replace(self._record, is_stopping=True))
        if self.engine is None:
            await self._end_all()
            self._finish(ShardState.STOPPED)
            return
        if self.state is not ShardState.DRAINING:
            self._move(ShardState.DRAINING)
        await self._run_stop_plan(self.engine)
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
            command,
            folder=self._around.workdir.path,
            output=output,
            mark=str(self._state_file),
        )
        self._processes.append(process)
        identities = tuple(one.identity for one in self._processes)
        self._save(replace(self._record, processes=identities))
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
        await self._end_sidecars()
        if self._record.is_stopping:
            self._finish(ShardState.STOPPED, exit_code=engine.exit_code)
            return
        if self._failure:
            # We ended it ourselves: its exit code tells nothing of the cause.
            self._finish(ShardState.FAILED, error=self._failure)
            return
        error = wording.exit_sentence(engine.identity.name, engine.exit_code)
        if self._is_loading and self._check is not None:
            with contextlib.suppress(Invalid):
                error = _with_port_holder(self._check, error)
        self._finish(ShardState.FAILED, error=error, exit_code=engine.exit_code)

    async def _give_up(self, failure: str) -> None:
        engine = self.engine
        if engine is None or not self._is_loading:
            return
        self._failure = failure
        await self._run_stop_plan(engine)
        await self._await_finish()

    async def _tell_drained(self) -> None:
        """Say that the engine has no request any more, so that nobody waits for nothing."""
        engine, check = self.engine, self._check
        if engine is None or check is None or not check.request_metrics:
            return
        is_idle = await idling.until_idle(engine, check, client=self._around.client)
        if is_idle and self.state is ShardState.DRAINING and not self._record.is_stopping:
            self._latest = replace(self._latest, is_drained=True)
            self.tell()

    async def _keep_vigil(self, engine: processes.Process) -> None:
        """End an engine that hangs while it should serve; ``_conclude`` tells of it."""
        check, settings = self._check, self._around.settings
        if check is None:
            return
        hung = await vigil.keep(
            engine,
            check,
            client=self._around.client,
            interval_s=settings.health_interval,
            hang_timeout_s=settings.hang_timeout,
        )
        if hung and self.state is ShardState.READY and not self._record.is_stopping:
            self._failure = hung
            _log.warning("engine_hung", shard=self.spec.shard_id, reason=hung)
            await self._run_stop_plan(engine, at_most_s=_HUNG_STEP_S)

    async def _run_stop_plan(
        self, engine: processes.Process, *, at_most_s: float = math.inf
    ) -> None:
        for one in self._stop_plan.steps:
            engine.signal_group(one.signal)
            if await engine.wait(timeout_s=min(one.wait_s, at_most_s)):
                return
        _log.warning("engine_killed", shard=self.spec.shard_id, pid=engine.identity.pid)
        await engine.end()

    async def _await_finish(self) -> None:
        try:
            async with asyncio.timeout(_SIDECAR_STOP_S + 2 * processes.KILL_WAIT_S):
                await self._finished.wait()
        except TimeoutError:
            pids = ", ".join(str(one.identity.pid) for one in self._processes)
            raise EngineFailed(
                f"shard {self.spec.shard_id} survives SIGKILL (processes {pids}); "
                "they are stuck in the kernel, look at its log"
            ) from None

    async def _end_all(self) -> None:
        for process in reversed(self._processes):
            await process.end()
        await processes.sweep(None, mark=str(self._state_file))

    async def _end_sidecars(self) -> None:
        for sidecar in reversed(self._processes[:-1]):
            if self._record.is_stopping:
                await sidecar.stop(timeout_s=_SIDECAR_STOP_S)
            else:
                await sidecar.end()

    def _move(self, to: ShardState) -> None:
        self._settle(self._report(to), to)

    def _finish(self, to: ShardState, *, error: str = "", exit_code: int | None = None) -> None:
        """The last state: the file goes, the reason and the newest output are told."""
        for process in self._processes:
            process.release()
        self._forget()
        is_failure = to is ShardState.FAILED
        tail = self._output.tail(REPORTED_LINES) if is_failure else ()
        report = replace(self._report(to), error=error, exit_code=exit_code, last_output=tail)
        self._settle(report, to)
        self._finished.set()

    def _settle(self, report: ShardReport, to: ShardState) -> None:
        self.state = step(shard=self.spec.shard_id, now=self.state, to=to)
        self._latest = report
        _log.info("shard_state", shard=self.spec.shard_id, state=to, error=report.error or None)
        self.tell()

    def _report(self, state: ShardState) -> ShardReport:
        return ShardReport(
            node_id=self._around.node_id,
            replica_id=self.spec.replica_id,
            shard_id=self.spec.shard_id,
            state=state,
        )

    def _forget(self) -> None:
        try:
            adoption.remove(self._state_file)
        except OSError as error:
            # What is left tells the next agent of processes that it will not find.
            _log.warning("state_not_removed", path=str(self._state_file), error=str(error))

    def _save(self, record: Record) -> None:
        self._record = record
        try:
            adoption.save(self._state_file, self._record)
        except OSError as error:
            # The engine is worth more than its file: only an agent restart would miss it.
            _log.warning("state_not_saved", path=str(self._state_file), error=str(error))


def _with_port_holder(check: HttpCheck, error: str) -> str:
    try:
        readiness.check_port_free(check)
    except AlreadyHeld as held:
        return f"{held.message}; {error}"
    return error
