"""Let requests through to a pool of endpoints as long as it is not too full for their band.

``arrival`` asks for each request that has somewhere to go.  Engines queue first come, first served
and know no tenants; so requests wait here instead, where the urgent go first and one project's
flood does not delay another's.  Below saturation nobody waits.

All of it is callbacks: a waiter costs no task, and while nobody waits nothing runs.
"""

from __future__ import annotations

import asyncio
import bisect
import enum
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from llmgw.config.entering import AdmissionSettings
from llmgw.gateway import refusing, saturating
from llmgw.gateway.attained import Attained
from llmgw.gateway.bands import Band, Bands
from llmgw.gateway.choice import Choice
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.families import WAIT_EDGES_S
from llmgw.gateway.replies import Code, Refusal
from llmgw.gateway.waiting_line import WaitingLine
from llmgw.kit import logs

_log = logs.get(__name__)

_LOOK_AGAIN_S: Final = 0.1
"""Other workers and other gateways free room without telling."""

_OLDEST_EACH: Final = 20
_OUTPUT_WEIGHS: Final = 2
_LONGEST_RETRY_AFTER_S: Final = 60


class Waiter(Protocol):
    """A request that may have to wait; it is told of the end of its wait once."""

    @property
    def model_name(self) -> str:
        """Whose line it waits in."""
        ...

    @property
    def band(self) -> Band:
        """How urgent it is."""
        ...

    @property
    def project(self) -> str:
        """Who it is for; empty where nobody knows."""
        ...

    @property
    def prompt_tokens(self) -> float:
        """What reading it costs, as an estimate."""
        ...

    def pool(self) -> Sequence[Choice]:
        """The endpoints that may take it now."""
        ...

    def on_admitted(self) -> None:
        """It may go: before it returns it has sent, or ended."""
        ...

    def on_displaced(self) -> None:
        """Somebody more urgent took its place in the line."""
        ...


class Lease(Protocol):
    """A request that was let through, until it ends."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        ...


class Entry(enum.Enum):
    """What becomes of a request that asks."""

    ADMITTED = "admitted"
    WAITS = "waits"
    NO_ROOM = "no_room"
    """Not even to wait."""


@dataclass(frozen=True, slots=True)
class AdmissionStats:
    """The figures of one moment; waits are counted by ``WAIT_EDGES_S`` and one bucket more."""

    rejected: Mapping[str, int]
    wait_buckets: Mapping[str, tuple[int, ...]]
    wait_sum_s: Mapping[str, float]
    depths: Mapping[tuple[str, str], int]
    leases: int
    swept_leases: int


class Admission:
    """See the module; one a worker."""

    def __init__(self, settings: AdmissionSettings, *, now: Callable[[], float]) -> None:
        self.bands = Bands(settings)
        self._is_enabled = settings.enabled
        self._queue_max = settings.queue_max
        self._now = now
        self._attained = Attained()
        self._lines: dict[str, WaitingLine[Waiter]] = {}
        self._leases: set[Lease] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False
        self._granted = 0
        self._swept = 0
        names = [band.name for band in self.bands.all]
        self._rejected = dict.fromkeys(names, 0)
        self._waits = {name: [0] * (len(WAIT_EDGES_S) + 1) for name in names}
        self._wait_sum_s = dict.fromkeys(names, 0.0)

    def band_of(self, exchange: Exchange) -> Band:
        """That of its key, where there is one, whatever its headers say."""
        grant = exchange.grant
        if grant is None:
            return self.bands.of(exchange.headers)
        return self.bands.named(grant.principal.band)

    def lets_in(self, exchange: Exchange, model_name: str, pool: Sequence[Choice]) -> bool:
        """Whether a request may send at once, as most may; else it is to ``ask``."""
        band = self.band_of(exchange)
        if not (self._is_free(self._lines.get(model_name), band) and self.has_room(pool, band)):
            return False
        self._waits[band.name][0] += 1
        if project := exchange.project:
            tokens = exchange.prompt_tokens or exchange.body_bytes / 4
            self._attained.charge(project, tokens, self._now())
        return True

    def ask(self, waiter: Waiter, pool: Sequence[Choice]) -> Entry:
        """Whether it may send now; if it waits, it will hear."""
        band = waiter.band
        line = self._lines.get(waiter.model_name)
        if self._is_free(line, band) and self.has_room(pool, band):
            self._waits[band.name][0] += 1
            self._charge_prompt(waiter)
            return Entry.ADMITTED
        if line is None:
            line = self._lines[waiter.model_name] = WaitingLine()
        if len(line) >= self._queue_max and not self._displace(line, band):
            return Entry.NO_ROOM
        line.add(waiter, rank=band.rank, project=waiter.project, now=self._now())
        if self._timer is None:
            self._be_called_again()
        return Entry.WAITS

    def has_room(self, pool: Sequence[Choice], band: Band) -> bool:
        """Whether the pool is not too full for the band."""
        return not self._is_enabled or saturating.of_pool(pool) < band.ceiling

    def leave(self, waiter: Waiter) -> None:
        """It does not wait any more, if it did."""
        line = self._lines.get(waiter.model_name)
        if line is not None and waiter in line:
            self._take_out(line, waiter)

    def refusal(self, waiter: Waiter) -> Refusal:
        """What to tell the client of one that found no room, waited too long or was displaced."""
        self._rejected[waiter.band.name] += 1
        line = self._lines.get(waiter.model_name, ())
        return Refusal(Code.OVERLOADED, retry_after_s=_retry_after_s(len(line), waiter.pool()))

    def hold(self, lease: Lease) -> None:
        """A request that was let through is on its way."""
        self._leases.add(lease)

    def release(self, lease: Lease, *, project: str, output_tokens: int) -> None:
        """It has ended, so there may be room."""
        self._leases.discard(lease)
        if project and output_tokens:
            self._attained.charge(project, output_tokens * _OUTPUT_WEIGHS, self._now())
        if self._lines and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self.let_through)

    def let_through(self) -> None:
        """Let go who may; each sends at once, so the next look sees it."""
        self._is_due = False
        for line in tuple(self._lines.values()):
            while line and (waiter := self._next_of(line)) is not None:
                self._take_out(line, waiter)
                self._granted += 1
                self._charge_prompt(waiter)
                waiter.on_admitted()

    def sweep(self) -> None:
        """Drop what requests that ended should have given back; there must be none."""
        over = [lease for lease in self._leases if lease.is_over]
        if over:
            _log.error("leases_swept", count=len(over))
            self._swept += len(over)
            self._leases.difference_update(over)

    def close(self) -> None:
        """Look no more for room."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def stats(self) -> AdmissionStats:
        """The figures of this moment."""
        return AdmissionStats(
            rejected=dict(self._rejected),
            wait_buckets={name: tuple(counts) for name, counts in self._waits.items()},
            wait_sum_s=dict(self._wait_sum_s),
            depths={
                (model, band.name): line.count_of(band.rank)
                for model, line in self._lines.items()
                for band in self.bands.all
            },
            leases=len(self._leases),
            swept_leases=self._swept,
        )

    def _is_free(self, line: WaitingLine[Waiter] | None, band: Band) -> bool:
        """Whether nobody waits who goes first."""
        return line is None or not line.has_as_urgent_as(band.rank)

    def _be_called_again(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self.let_through()
        if self._lines and self._timer is None:
            self._be_called_again()

    def _take_out(self, line: WaitingLine[Waiter], waiter: Waiter) -> None:
        """Its wait is over."""
        wait_s = self._now() - line.remove(waiter)
        name = waiter.band.name
        self._waits[name][bisect.bisect_left(WAIT_EDGES_S, wait_s)] += 1
        self._wait_sum_s[name] += wait_s
        if not line:
            self._lines.pop(waiter.model_name, None)

    def _next_of(self, line: WaitingLine[Waiter]) -> Waiter | None:
        """Who may be let through now: the most urgent, and now and then who waits longest."""
        now, ranks = self._now(), line.ranks()
        if self._granted % _OLDEST_EACH == _OLDEST_EACH - 1:
            for waiter in line.oldest():
                if self.has_room(waiter.pool(), waiter.band):
                    return waiter
        waiter = line.next_of(ranks[0], lambda project: self._attained.of(project, now))
        return waiter if self.has_room(waiter.pool(), waiter.band) else None

    def _displace(self, line: WaitingLine[Waiter], band: Band) -> bool:
        """Make room for somebody more urgent; whether somebody less urgent waited."""
        lowest = line.ranks()[-1]
        if lowest <= band.rank:
            return False
        youngest = line.youngest_of(lowest)
        self._take_out(line, youngest)
        self._lines[youngest.model_name] = line  # it may have been the only one
        youngest.on_displaced()
        return True

    def _charge_prompt(self, waiter: Waiter) -> None:
        if project := waiter.project:
            self._attained.charge(project, waiter.prompt_tokens, self._now())


def _retry_after_s(waiting: int, pool: Sequence[Choice]) -> int:
    """When those who wait now will have been served, as far as the engines' pace is known."""
    drain = sum(one.standing.drain or 0.0 for one in pool)
    if not drain:
        return refusing.RETRY_AFTER_S
    return min(max(math.ceil(waiting / drain), 1), _LONGEST_RETRY_AFTER_S)
