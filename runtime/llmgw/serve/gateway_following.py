"""One conversation of a gateway with a control plane: follows its routes, and reports what is seen.

The link dials and decides what comes after. A conversation always ends by an exception that says
why; what is served goes on as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import NoReturn, Protocol

from grpc import aio

from llmgw import __version__
from llmgw.domain.gateway_reports import EndpointReport, GatewayReport
from llmgw.domain.routes import RouteTable
from llmgw.domain.traffic import EndpointTraffic, Traffic
from llmgw.errors import DeadlinePassed, Unreachable
from llmgw.kit.clock import Clock
from llmgw.rpc import wire_sights
from llmgw.rpc.v1 import gateway_pb2 as pb
from llmgw.rpc.v1 import gateway_pb2_grpc
from llmgw.serve.followed_routes import FollowedRoutes

ANSWER_S = 10.0
"""A control plane that has not answered by then is taken as gone."""

_LEAST_GAP_S = 0.1


class Seen(Protocol):
    """What the workers of this gateway see; ``workers.Workers`` fits."""

    def traffic(self) -> Traffic:
        """At this moment."""
        ...

    def pids(self) -> tuple[int, ...]:
        """The workers that take connections."""
        ...

    def subscribe(self, on_news: Callable[[], None]) -> Callable[[], None]:
        """Be told when something else is asked for, or a table has reached all workers."""
        ...

    def worked(self, endpoint_id: str, *, worked_at: float | None, looked_at: float) -> None:
        """An agent looked at an engine."""
        ...


class Sight:
    """Makes reports of what is seen, and gives the workers what is heard back."""

    def __init__(self, seen: Seen, *, name: str, instance: str, clock: Clock) -> None:
        """``instance`` is another one at each start."""
        self.seen = seen
        self.name = name
        self.instance = instance
        self._clock = clock

    def report(self, table: RouteTable, *, is_leaving: bool = False) -> pb.GatewayReport:
        """What is seen now, with ``table`` being the one that was given to the workers last."""
        traffic, now = self.seen.traffic(), self._clock.monotonic()
        report = GatewayReport(
            name=self.name,
            instance=self.instance,
            term=table.term,
            number=table.number if traffic.has_latest_table else None,
            workers=len(self.seen.pids()),
            endpoints=tuple(
                _in_ages(name, one, now=now) for name, one in traffic.endpoints.items()
            ),
            asked=traffic.asked,
            is_leaving=is_leaving,
        )
        return wire_sights.pack_report(report)

    def hear(self, answer: pb.ReportAnswer, *, followed: FollowedRoutes) -> None:
        """Pass on how wishes stand and what agents saw."""
        told, now = wire_sights.unpack_answer(answer), self._clock.monotonic()
        followed.overlay(told.demand)
        for one in told.evidence:
            worked_at = None if one.worked_ago_s is None else now - one.worked_ago_s
            self.seen.worked(one.endpoint_id, worked_at=worked_at, looked_at=now - one.looked_ago_s)


class Following:
    """A conversation over one channel."""

    def __init__(
        self,
        stub: gateway_pb2_grpc.GatewayServiceAsyncStub,
        *,
        followed: FollowedRoutes,
        sight: Sight,
        current: Callable[[], RouteTable],
    ) -> None:
        """``current`` is the table that the workers were given last."""
        self._stub = stub
        self._followed = followed
        self._sight = sight
        self._current = current
        self._call: aio.UnaryStreamCall[pb.WatchRequest, pb.RouteUpdate] | None = None

    async def open(self) -> None:
        """Return once the control plane has let this gateway in."""
        self._call = self._stub.WatchRoutes(
            pb.WatchRequest(
                name=self._sight.name,
                instance=self._sight.instance,
                version=__version__,
                term=self._followed.term,
                number=self._followed.number,
            )
        )
        try:
            async with asyncio.timeout(ANSWER_S):
                self._followed.begin(await self._next(self._call))
        except TimeoutError as error:
            raise DeadlinePassed(f"no answer within {ANSWER_S:g} s") from error

    async def hold(self, *, report_every_s: float) -> NoReturn:
        """Follow and report until something ends it."""
        if self._call is None:
            raise Unreachable("a conversation is held before it was opened")
        await _until_one_ends(
            follow=self._follow(self._call), report=self._report(every_s=report_every_s)
        )

    async def leave(self, *, within_s: float) -> None:
        """Say that nothing more comes of this gateway."""
        last = self._sight.report(self._current(), is_leaving=True)
        await self._stub.Report(last, timeout=within_s)

    async def _follow(self, call: aio.UnaryStreamCall[pb.WatchRequest, pb.RouteUpdate]) -> NoReturn:
        while True:
            self._followed.take(await self._next(call))

    async def _report(self, *, every_s: float) -> NoReturn:
        """At once, then at each interval and when there is news, but never without a pause."""
        news = asyncio.Event()
        unsubscribe = self._sight.seen.subscribe(news.set)
        try:
            while True:
                news.clear()
                report = self._sight.report(self._current())
                answer = await self._stub.Report(report, timeout=ANSWER_S)
                self._sight.hear(answer, followed=self._followed)
                await asyncio.sleep(_LEAST_GAP_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, every_s - _LEAST_GAP_S)):
                        await news.wait()
        finally:
            unsubscribe()

    @staticmethod
    async def _next(
        call: aio.UnaryStreamCall[pb.WatchRequest, pb.RouteUpdate],
    ) -> pb.RouteUpdate:
        update = await call.read()
        if not isinstance(update, pb.RouteUpdate):
            raise Unreachable("the control plane ended the call without a reason")
        return update


def _in_ages(name: str, one: EndpointTraffic, *, now: float) -> EndpointReport:
    return EndpointReport(
        endpoint_id=name,
        inflight=one.inflight,
        used_ago_s=None if one.last_used_at is None else now - one.last_used_at,
        ejected_ago_s=None if one.ejected_at is None else now - one.ejected_at,
        is_stalled=one.is_stalled,
        answered_ago_s=None if one.answered_at is None else now - one.answered_at,
    )


async def _until_one_ends(**works: Coroutine[object, object, NoReturn]) -> NoReturn:
    tasks = [asyncio.create_task(work, name=f"gateway.{name}") for name, work in works.items()]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    reasons = [end for end in ends if not isinstance(end, asyncio.CancelledError)]
    raise reasons[0] if reasons else Unreachable("the conversation was cancelled")
