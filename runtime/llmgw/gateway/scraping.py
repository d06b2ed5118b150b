"""Look at every endpoint again and again: its metrics, its health, whether it makes progress.

``server`` runs one ``Scraper``; of the workers of a host one looks for all.  Each endpoint is
looked at on its own, so one that does not answer delays no other; external ones are not looked at.
What is seen goes onto the board.
"""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Callable
from dataclasses import dataclass

from llmgw.errors import Exhausted, Unreachable
from llmgw.gateway import metric_names, probing, progress
from llmgw.gateway.endpoints import LiveEndpoint, Registry
from llmgw.gateway.families import SCRAPE_EDGES_S
from llmgw.kit import logs
from llmgw.kit.metrics import Sample
from llmgw.kit.tasks import Tasks

_log = logs.get(__name__)

_PROBE_S = 2.0
_AT_ONCE = 64
_SPREAD = 0.25
"""Looks of one round begin within this share of the interval, so that they do not come together."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the scraper works with; ``draw`` gives random figures in [0, 1).

    ``on_changed`` is called when an endpoint was taken out of use or back into it; of the workers
    that share a board one ``is_publisher`` at a time, and it alone looks.
    """

    registry: Registry
    tasks: Tasks
    now: Callable[[], float]
    draw: Callable[[], float]
    on_changed: Callable[[], None]
    is_publisher: Callable[[], bool]


class Scraper:
    """See the module; ``run`` until cancelled."""

    def __init__(self, shared: Surroundings, *, interval_s: float) -> None:
        self._shared = shared
        self._interval_s = interval_s
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._under_way: set[LiveEndpoint] = set()
        self._watched: set[LiveEndpoint] = set()
        self._took_s = 0.0
        self._took_buckets = [0] * (len(SCRAPE_EDGES_S) + 1)

    async def run(self) -> None:
        """Begin a look at every endpoint in each interval, as long as this worker is to."""
        while True:
            for live in self._watch():
                if live not in self._under_way:
                    self._under_way.add(live)
                    self._shared.tasks.spawn(f"look-{live.facts.endpoint_id}", self._look(live))
            await asyncio.sleep(self._interval_s)

    def figures(self) -> Sample:
        """How long engines took to describe themselves."""
        return Sample("llmgw_scrape_seconds", (), self._took_s, tuple(self._took_buckets))

    def _watch(self) -> set[LiveEndpoint]:
        """Whom to look at now; what another worker saw of them before is not known here."""
        lives = self._shared.registry.all() if self._shared.is_publisher() else ()
        before, self._watched = self._watched, {one for one in lives if not one.is_external}
        for live in self._watched - before:
            live.watched(self._shared.now())
        return self._watched

    async def _look(self, live: LiveEndpoint) -> None:
        try:
            await asyncio.sleep(self._interval_s * _SPREAD * self._shared.draw())
            async with self._room:
                if live.is_listed:
                    await self._probe(live)
            if live.is_listed:
                self._judge(live)
        except Exception as error:  # noqa: BLE001 - one endpoint must not end the looks at others
            _log.error("look_failed", endpoint=live.facts.endpoint_id, exc=error)
        finally:
            self._under_way.discard(live)

    async def _probe(self, live: LiveEndpoint) -> None:
        """Metrics if they come; else whether its health is answered, which tells less."""
        asked_at = self._shared.now()
        live.seat.open_generation()
        try:
            page = await probing.fetch(
                live.probes, live.probe_request(b"/metrics"), within_s=_PROBE_S
            )
        except Exhausted:
            live.watched(self._shared.now())  # who could not be asked was not silent
            return
        except Unreachable:
            live.failed_looks += 1
            await self._probe_health(live)
            return
        now = self._shared.now()
        live.heard(now)
        self._took_s += now - asked_at
        self._took_buckets[bisect.bisect_left(SCRAPE_EDGES_S, now - asked_at)] += 1
        if page.status == 200:
            self._take(live, page.body, at=asked_at)
        else:
            live.failed_looks += 1
            self._complain(live, (f"a page of metrics (status {page.status})",))

    async def _probe_health(self, live: LiveEndpoint) -> None:
        """An engine may be too busy for its metrics and still answer; any answer is one."""
        try:
            await probing.fetch(live.probes, live.probe_request(b"/health"), within_s=_PROBE_S)
        except Exhausted:
            live.watched(self._shared.now())
        except Unreachable as error:
            _log.debug("probe_failed", endpoint=live.facts.endpoint_id, reason=error.message)
        else:
            live.heard(self._shared.now())

    def _take(self, live: LiveEndpoint, page: bytes, *, at: float) -> None:
        read = metric_names.read(page, metric_names.of(live.facts.engine, page))
        if isinstance(read, tuple):
            self._complain(live, read)
            return
        self._complain(live, read.lacks)
        live.take(read, at=at)

    def _judge(self, live: LiveEndpoint) -> None:
        now = self._shared.now()
        hang = progress.hang(live.signs(now), now=now)
        if hang is not None and not live.seat.is_ejected_as(is_stalled=hang.is_stalled):
            _log.warning("endpoint_ejected", endpoint=live.facts.endpoint_id, reason=hang.reason)
            live.seat.eject(now, is_stalled=hang.is_stalled)
        elif hang is None and live.seat.is_ejected:
            _log.info("endpoint_readmitted", endpoint=live.facts.endpoint_id)
            live.seat.readmit()
        if live.refresh(now):
            self._shared.on_changed()

    @staticmethod
    def _complain(live: LiveEndpoint, lacks: tuple[str, ...]) -> None:
        """Once when something is not published, and once when it is."""
        if lacks == live.lacks:
            return
        live.lacks = lacks
        if lacks:
            _log.warning(
                "metrics_incomplete",
                endpoint=live.facts.endpoint_id,
                engine=live.facts.engine or "unknown",
                lacks=", ".join(lacks),
            )
        else:
            _log.info("metrics_complete", endpoint=live.facts.endpoint_id)
