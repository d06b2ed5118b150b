"""What gateways on other hosts see, as the reconciler hears it.

A gateway that is known and silent serves on from its last table, so nothing is idle and nothing
drains empty for as long as it may come back.  What one saw that has left stays: when an endpoint
was used is true whoever used it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from llmgw.control.gateways.watches import Gateway
from llmgw.domain import joint_traffic
from llmgw.domain.gateway_reports import EndpointReport, Evidence, GatewayReport, ReportAnswer
from llmgw.domain.routes import RouteTable
from llmgw.domain.status_views import GatewayView
from llmgw.domain.traffic import EndpointTraffic, Traffic
from llmgw.errors import Unknown
from llmgw.kit import logs
from llmgw.kit.clock import Clock
from llmgw.kit.subscribers import Subscribers

SILENT_AFTER_S = 5.0
"""Several reports that did not come: what it sees now is not known."""

WISHES_KEPT_S = 60.0
"""So long the wishes of a silent gateway stand: its requests may be waiting still."""

REMEMBERED_S = 900.0
"""So long a gateway that went without a word may come back."""

_log = logs.get(__name__)


@dataclass(slots=True)
class _Known:
    """One gateway, from its first call until it leaves or is forgotten.

    ``has_gap``: an earlier start of it ended without a word, and may have used anything meanwhile.
    """

    gateway: Gateway
    told_at: float
    has_gap: bool = False
    is_open: bool = True
    report: GatewayReport | None = None
    endpoints: Mapping[str, EndpointTraffic] = field(default_factory=dict)
    evidence_at: float = 0.0

    def is_silent(self, now: float) -> bool:
        """Whether nobody knows what it sees."""
        return self.report is None or now - self.told_at > SILENT_AFTER_S


class Sightings:
    """The reports of all gateways; fits ``reconciler.ports.Gateways`` for those alone."""

    def __init__(self, current: Callable[[], RouteTable], *, clock: Clock) -> None:
        """``current`` is the table that is published now."""
        self._current = current
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._used_at: dict[str, float] = {}
        self._known_since: float | None = None
        self._worked: dict[str, tuple[float | None, float]] = {}
        self._on_news: Subscribers[Callable[[], None]] = Subscribers()

    def opened(self, gateway: Gateway) -> None:
        """A gateway watches; until it reports nobody knows what it sees."""
        known, now = self._known.get(gateway.name), self._clock.monotonic()
        if known is not None and known.gateway.instance == gateway.instance:
            known.gateway, known.is_open = gateway, True
        else:
            if known is not None:
                self._remember(known)
            has_gap = known is not None
            self._known[gateway.name] = _Known(gateway, told_at=now, has_gap=has_gap)
        self._tell()

    def closed(self, name: str) -> None:
        """It watches no more, whatever became of it."""
        if (known := self._known.get(name)) is not None:
            known.is_open = False
            self._tell()

    def hear(self, report: GatewayReport) -> ReportAnswer:
        """Take a report of a gateway that watches; ``Unknown`` after its last one."""
        known, now = self._known.get(report.name), self._clock.monotonic()
        if known is None:
            raise Unknown(f"gateway {report.name} has left already")
        if report.is_leaving:
            self._see(known, report, now=now)
            self._remember(self._known.pop(report.name))
            self._tell()
            return ReportAnswer()
        before, was_silent = known.report, known.is_silent(now)
        if before is None and known.has_gap:
            self._known_since = now
        self._see(known, report, now=now)
        if was_silent or before is None or _news(before) != _news(report):
            self._tell()
        models = self._current().models
        return ReportAnswer(
            demand=tuple(models[name] for name in sorted(report.asked) if name in models),
            evidence=self._evidence(known, now=now),
        )

    def let_go(self) -> None:
        """Another control plane leads: gateways tell that one what they see."""
        self._known.clear()
        self._used_at.clear()
        self._known_since = None

    def joined(self, local: Traffic) -> Traffic:
        """What all gateways know together, those of this host included."""
        now = self._clock.monotonic()
        self._forget(now)
        if not self._known and not self._used_at:
            return local
        told = [local]
        past = {name: EndpointTraffic(0, last_used_at=at) for name, at in self._used_at.items()}
        told.append(Traffic(past, has_latest_table=True))
        told += [self._traffic(known, now=now) for known in self._known.values()]
        listed = self._listed()
        seen = joint_traffic.joined(
            told,
            is_whole=not any(known.is_silent(now) for known in self._known.values()),
            known_since=self._known_since,
        )
        endpoints = {name: one for name, one in seen.endpoints.items() if name in listed}
        return Traffic(endpoints, seen.asked, has_latest_table=seen.has_latest_table)

    def subscribe(self, on_news: Callable[[], None]) -> Callable[[], None]:
        """Be told when something else is asked for, or a gateway comes, goes or takes a table."""
        return self._on_news.add(on_news)

    def worked(self, endpoint_id: str, *, worked_at: float | None, looked_at: float) -> None:
        """An agent looked at an engine; every gateway is told at its next report."""
        if self._known:
            self._worked[endpoint_id] = (worked_at, looked_at)

    def views(self) -> tuple[GatewayView, ...]:
        """Every gateway that is known, by name."""
        now = self._clock.monotonic()
        self._forget(now)
        return tuple(self._view(self._known[name], now=now) for name in sorted(self._known))

    def _see(self, known: _Known, report: GatewayReport, *, now: float) -> None:
        known.report, known.told_at = report, now
        known.endpoints = {one.endpoint_id: _seen(one, now=now) for one in report.endpoints}

    def _traffic(self, known: _Known, *, now: float) -> Traffic:
        report, table = known.report, self._current()
        if report is None:
            return Traffic()
        is_silent = known.is_silent(now)
        is_heard = now - known.told_at <= WISHES_KEPT_S
        return Traffic(
            endpoints={} if is_silent else known.endpoints,
            asked=report.asked if is_heard else frozenset(),
            has_latest_table=_has(report, table) and not is_silent,
        )

    def _evidence(self, known: _Known, *, now: float) -> tuple[Evidence, ...]:
        listed = self._listed()
        self._worked = {name: one for name, one in self._worked.items() if name in listed}
        newer = {n: one for n, one in self._worked.items() if one[1] > known.evidence_at}
        known.evidence_at = max((at for _, at in newer.values()), default=known.evidence_at)
        return tuple(
            Evidence(
                endpoint_id=name,
                looked_ago_s=now - looked_at,
                worked_ago_s=None if worked_at is None else now - worked_at,
            )
            for name, (worked_at, looked_at) in newer.items()
        )

    def _remember(self, known: _Known) -> None:
        """What a gateway used that is gone, for as long as the endpoints are listed."""
        listed = self._listed()
        self._used_at = {name: at for name, at in self._used_at.items() if name in listed}
        for name, one in known.endpoints.items():
            at = known.told_at if one.inflight else one.last_used_at
            if at is not None:
                self._used_at[name] = max(at, self._used_at.get(name, at))

    def _forget(self, now: float) -> None:
        for name, known in tuple(self._known.items()):
            if not known.is_open and now - known.told_at > REMEMBERED_S:
                _log.warning("gateway_forgotten", gateway=name, silent_s=now - known.told_at)
                self._remember(self._known.pop(name))

    def _listed(self) -> frozenset[str]:
        return frozenset(one.endpoint_id for one in self._current().endpoints)

    def _view(self, known: _Known, *, now: float) -> GatewayView:
        report = known.report
        return GatewayView(
            name=known.gateway.name,
            peer=known.gateway.peer,
            version=known.gateway.version,
            is_connected=known.is_open and not known.is_silent(now),
            term=None if report is None else report.term,
            number=None if report is None else report.number,
            is_current=report is not None and _has(report, self._current()),
            workers=None if report is None else report.workers,
            heard_s=now - known.told_at,
        )

    def _tell(self) -> None:
        for on_news in self._on_news:
            on_news()


def _seen(one: EndpointReport, *, now: float) -> EndpointTraffic:
    return EndpointTraffic(
        inflight=one.inflight,
        last_used_at=None if one.used_ago_s is None else now - one.used_ago_s,
        ejected_at=None if one.ejected_ago_s is None else now - one.ejected_ago_s,
        answered_at=None if one.answered_ago_s is None else now - one.answered_ago_s,
        is_stalled=one.is_stalled,
    )


def _has(report: GatewayReport, table: RouteTable) -> bool:
    return (report.term, report.number) == (table.term, table.number)


def _news(report: GatewayReport) -> Sequence[object]:
    """What the reconciler need not wait for its next turn to hear."""
    return report.asked, report.term, report.number
