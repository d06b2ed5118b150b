"""Carries out the control plane's orders for shards: fetch, check, start, watch, drain, stop.

``session`` calls it and never waits: each order is a task, may arrive twice, and is answered by
reports. Whether an order may be given at all (terms, leadership) was judged before.
"""

from __future__ import annotations

import asyncio
import functools
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from llmgw.agent.engines import registry
from llmgw.agent.engines.contract import Command, Engine, StopPlan, StopStep
from llmgw.agent.engines.registry import Engines
from llmgw.agent.ring import LogRing
from llmgw.agent.supervisor import workdir
from llmgw.agent.supervisor.interviewing import PROBE_TIMEOUT_S, HttpCheck
from llmgw.agent.supervisor.shard import Handling, SupervisedShard
from llmgw.agent.supervisor.supervisor import Supervisor
from llmgw.agent.weights.fetch_orders import FetchOrders
from llmgw.agent.weights.fetching import Weights
from llmgw.config import secrets
from llmgw.config.settings import AgentSettings
from llmgw.domain.fetch_status import FetchStatus
from llmgw.domain.nodes import Gpu
from llmgw.domain.replicas import RunningShard, ShardReport, ShardSpec, ShardState
from llmgw.domain.work import ShardWork
from llmgw.errors import AlreadyHeld, EngineFailed, Invalid, LlmgwError, Unknown
from llmgw.kit import logs
from llmgw.kit.clock import Clock
from llmgw.kit.tasks import Tasks

AGENT_LOG = "agent"
"""The log source that is the agent itself; all others are shards."""

Work = Callable[[], Coroutine[None, None, None]]

_DEFAULT_STOP_S = 60.0
_DEFAULT_HEALTH_PATH = "/health"
_log = logs.get(__name__)


class NodeCards(Protocol):
    """Says what is known of the node's cards; discovery fits."""

    def gpus(self) -> Sequence[Gpu]:
        """The cards as they were read last."""
        ...

    async def gpu_utilization(self) -> Mapping[int, int]:
        """Percent by card, read now or a moment ago; one that cannot be read is left out."""
        ...


class Orders:
    """All shard orders of one node; fits ``session``'s ``ShardOrders``."""

    def __init__(
        self,
        *,
        mgmt_addr: str,
        engines: Engines,
        weights: Weights,
        supervisor: Supervisor,
        gpus: Callable[[], Sequence[Gpu]],
        ring: LogRing | None = None,
    ) -> None:
        """Engines answer on ``mgmt_addr``; ``gpus`` are the node's cards as discovery sees them."""
        self._mgmt_addr = mgmt_addr
        self._engines = engines
        self._weights = weights
        self._supervisor = supervisor
        self._gpus = gpus
        self._ring = ring or LogRing()
        self._tasks = Tasks(owner="orders")
        self._starts: dict[str, asyncio.Task[None]] = {}
        self._stops: dict[str, asyncio.Task[None]] = {}

    async def recover(self) -> None:
        """Adopt the engines of an earlier agent; call before registering.

        Those that serve are READY when this returns, so that nobody takes them for starting anew;
        one that does not answer at once is waited for in the background.
        """
        self._weights.prepare()
        looks = []
        for found in await self._supervisor.recover(self._handling):
            shard_id = found.shard.spec.shard_id
            if found.is_stopping:
                self.stop(shard_id)
            elif found.failure:
                self._begin(found.shard, functools.partial(found.shard.give_up, found.failure))
            elif found.shard.state is ShardState.STARTING:
                look = functools.partial(found.shard.become_ready, budget_s=found.budget_s)
                looks.append(self._begin(found.shard, look))
        self._tasks.spawn("resume fetches", self._weights.resume())
        if looks:
            await asyncio.wait(looks, timeout=PROBE_TIMEOUT_S)

    def start(self, spec: ShardSpec) -> None:
        """Start a shard; one that has not ended only reports where it stands."""
        held = self._supervisor.get(spec.shard_id)
        if held is not None and not held.state.is_final:
            held.ordered_again()
            return
        shard = self._supervisor.create(spec)
        shard.tell()
        self._begin(shard, functools.partial(self._carry_out, shard))

    def stop(self, shard_id: str) -> None:
        """Stop a shard, also one that is still fetching; an unknown one is reported as stopped."""
        shard = self._supervisor.get(shard_id)
        if shard is None:
            self._supervisor.tell_absent(shard_id, state=ShardState.STOPPED)
        elif shard.state.is_final:
            shard.tell()
        elif shard_id not in self._stops:
            task = self._tasks.spawn(f"stop {shard_id}", self._stop(shard))
            self._stops[shard_id] = task
            task.add_done_callback(lambda done: _drop(self._stops, shard_id, done))

    def drain(self, shard_id: str) -> None:
        """Mark a shard as taking no new work; one that does not run says where it stands."""
        shard = self._supervisor.get(shard_id)
        if shard is None:
            self._supervisor.tell_absent(shard_id, state=ShardState.STOPPED)
        elif shard.state.is_live:
            shard.drain()
        else:
            shard.tell()

    def running(self) -> tuple[RunningShard, ...]:
        """Shards that run, and those that are about to."""
        return tuple(shard.running() for shard in self._supervisor.unended())

    async def work(self) -> tuple[ShardWork, ...]:
        """Of each live shard what it has used so far, for whoever tells slow from hung."""
        return await self._supervisor.work()

    async def remove_download(self, path: str) -> bool:
        """Remove a download that no shard of this node uses; whether it was there.

        ``Conflict`` for one in use, ``Denied`` for what no agent has fetched.
        """
        unended = self._supervisor.unended()
        sources = {one.spec.shard_id: one.spec.profile.model_path for one in unended}
        return await self._weights.remove(path, sources_by_shard=sources)

    async def fetch_ahead(self, source: str) -> FetchStatus:
        """Have weights fetched before a shard needs them; ``Invalid`` for what is not fetched."""
        return await self._weights.provision(source)

    def call_off(self, source: str) -> bool:
        """No longer fetch weights ahead; whether they were. A shard that waits goes on waiting."""
        return self._weights.cancel(source)

    def fetches(self) -> tuple[FetchStatus, ...]:
        """Every download under way, for a shard or ahead of one, and those that failed."""
        return self._weights.status()

    def log_sources(self) -> tuple[str, ...]:
        """``agent`` and every shard of which there is output."""
        return (AGENT_LOG, *self._supervisor.log_sources())

    def log_tail(self, source: str, lines: int) -> tuple[str, ...]:
        """The newest lines of a source, oldest first; ``Unknown`` for any other name."""
        if source == AGENT_LOG:
            return self._ring.tail(lines)
        return self._supervisor.log_tail(source, lines)

    async def close(self, *, stop_engines: bool) -> None:
        """End the agent's part: engines go on serving unless they are to stop with it."""
        await self._tasks.close()
        if stop_engines:
            unended = self._supervisor.unended()
            await asyncio.gather(*(self._stop(shard) for shard in unended))
        await self._weights.close()
        await self._supervisor.close()

    def _begin(self, shard: SupervisedShard, work: Work) -> asyncio.Task[None]:
        shard_id = shard.spec.shard_id
        task = self._tasks.spawn(f"start {shard_id}", _guarded(shard, work))
        self._starts[shard_id] = task
        task.add_done_callback(lambda done: _drop(self._starts, shard_id, done))
        return task

    async def _carry_out(self, shard: SupervisedShard) -> None:
        spec = shard.spec
        engine = self._engines.get(spec.profile.engine)
        engine.validate(spec.profile, self._cards(spec))
        path = await self._weights.ensure(spec.profile.model_path, on_progress=shard.tell_fetch)
        commands = await asyncio.to_thread(_commands, engine, spec, path)
        await shard.launch(commands, handling=self._handling(spec))
        await shard.become_ready(budget_s=spec.startup_timeout_s)

    async def _stop(self, shard: SupervisedShard) -> None:
        start = self._starts.get(shard.spec.shard_id)
        if start is not None:
            start.cancel()
            await asyncio.wait({start})
        try:
            await shard.stop()
        except EngineFailed as error:
            _log.error("shard_not_stopped", shard=shard.spec.shard_id, error=error.message)

    def _cards(self, spec: ShardSpec) -> tuple[Gpu, ...]:
        """The shard's own cards; ``Invalid`` when the node has no such card."""
        cards_by_index = {card.index: card for card in self._gpus()}
        missing = [str(index) for index in spec.gpu_indices if index not in cards_by_index]
        if missing:
            raise Invalid(f"this node has no GPU {', '.join(missing)}; look at its inventory")
        return tuple(cards_by_index[index] for index in spec.gpu_indices)

    def _handling(self, spec: ShardSpec) -> Handling:
        """How a running engine is asked and ended, even one that has no driver here any more."""
        try:
            engine = self._engines.get(spec.profile.engine)
        except Unknown:
            steps = (StopStep(signal.SIGTERM, _DEFAULT_STOP_S),)
            check = self._check(spec, engine=None)
            return Handling(stop_plan=StopPlan(steps), check=check)
        check = self._check(spec, engine=engine)
        return Handling(stop_plan=engine.stop_plan, check=check)

    def _check(self, spec: ShardSpec, *, engine: Engine | None) -> HttpCheck | None:
        serves = spec.rank == 0 if engine is None else engine.serves_http(spec)
        if not serves:
            return None
        return HttpCheck(
            address=self._mgmt_addr,
            port=spec.http_port,
            health_path=_DEFAULT_HEALTH_PATH if engine is None else engine.health_path,
            model=spec.profile.served_model_name,
            request_metrics=() if engine is None else engine.request_metrics,
            work_metrics=() if engine is None else engine.work_metrics,
        )


def build(
    settings: AgentSettings,
    *,
    environ: Mapping[str, str],
    clock: Clock,
    cards: NodeCards,
    on_report: Callable[[ShardReport], None],
    ring: LogRing | None = None,
) -> Orders:
    """Orders with everything below them; ``node_id`` and ``mgmt_addr`` must be filled in by now.

    Takes the work folder: ``AlreadyHeld`` while another agent has it.
    """
    return Orders(
        mgmt_addr=settings.mgmt_addr,
        engines=registry.build(settings, mgmt_addr=settings.mgmt_addr, environ=environ),
        weights=Weights(
            folder=settings.weights_dir,
            clock=clock,
            settings=settings.weights,
            # Read at each download, so that a changed token counts at once.
            token=lambda: secrets.resolve(settings.weights.hub_token or "", environ=environ),
            ordered=FetchOrders(Path(settings.supervisor.work_dir) / workdir.FETCH_ORDERS),
        ),
        supervisor=Supervisor(
            node_id=settings.node_id,
            settings=settings.supervisor,
            clock=clock,
            on_report=on_report,
            gpu_utilization=cards.gpu_utilization,
        ),
        gpus=cards.gpus,
        ring=ring,
    )


async def _guarded(shard: SupervisedShard, work: Work) -> None:
    """However a start ends, the shard says so; one whose processes run is told of by their exit."""
    try:
        await work()
    except LlmgwError as error:
        # A stranger on the port is no fault: the control plane gives another one.
        level = _log.info if isinstance(error, AlreadyHeld) else _log.warning
        level("start_failed", shard=shard.spec.shard_id, error=error.message)
        shard.fail(error.message)
    except Exception as error:  # noqa: BLE001 - a fault of ours must not leave a shard pending
        _log.error("start_failed", shard=shard.spec.shard_id, error=repr(error), exc=error)
        shard.fail(f"the agent failed: {error!r}")


def _commands(engine: Engine, spec: ShardSpec, path: str) -> tuple[Command, ...]:
    return engine.commands(replace(spec, profile=replace(spec.profile, model_path=path)))


def _drop(tasks: dict[str, asyncio.Task[None]], shard_id: str, ended: asyncio.Task[None]) -> None:
    if tasks.get(shard_id) is ended:
        del tasks[shard_id]
