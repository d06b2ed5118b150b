"""People who use models that are loaded when somebody asks, as all gateways together would tell.

They begin and end by the sessions of ``daylight``; whoever finds no replica waits for one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from llmgw.domain.catalog import Catalog
from llmgw.domain.replicas import ReplicaState
from llmgw.domain.snapshots import Cluster
from llmgw.domain.traffic import EndpointTraffic, Traffic
from llmgw.simulator.agenda import Agenda
from llmgw.simulator.daylight import Session

_MOMENT_S = 1.0


class Askers:
    """All open sessions, by model."""

    def __init__(
        self,
        sessions: Iterator[Session],
        *,
        catalog: Catalog,
        agenda: Agenda,
        on_news: Callable[[], None],
    ) -> None:
        """``on_news`` is called when a pass should look."""
        self._sessions = sessions
        self._idle_s = idle_timeouts(catalog)
        self._agenda = agenda
        self._on_news = on_news
        self._last_used_at: dict[str, float] = {}
        self.open: Counter[str] = Counter()
        self.begun = 0
        self._await_next()

    def traffic(self, cluster: Cluster, *, now: float) -> Traffic:
        """What the gateways see: use of each such replica, and the models that are waited for."""
        endpoints: dict[str, EndpointTraffic] = {}
        served: set[str] = set()
        for replica_id, replica in cluster.replicas.items():
            if replica.model not in self._idle_s or replica.ready_at is None:
                continue
            inflight = self.open[replica.model]
            last_used_at = now if inflight else self._last_used_at.get(replica.model)
            endpoints[replica_id] = EndpointTraffic(inflight, last_used_at)
            if replica.state is ReplicaState.READY:
                served.add(replica.model)
        return Traffic(
            endpoints=endpoints,
            asked=frozenset(m for m, n in self.open.items() if n and m not in served),
            has_latest_table=True,
        )

    def _await_next(self) -> None:
        session = next(self._sessions, None)
        if session is not None:
            wait_s = max(0.0, session.at_s - self._agenda.monotonic())
            self._agenda.after(wait_s, lambda: self._begin(session))

    def _begin(self, session: Session) -> None:
        self.begun += 1
        self.open[session.model] += 1
        self._agenda.after(session.for_s, lambda: self._end(session.model))
        self._on_news()
        self._await_next()

    def _end(self, model: str) -> None:
        self.open[model] -= 1
        self._last_used_at[model] = self._agenda.monotonic()
        if not self.open[model]:
            self._agenda.after(self._idle_s[model] + _MOMENT_S, self._on_news)


def idle_timeouts(catalog: Catalog) -> Mapping[str, float]:
    """How long each model that is loaded on demand may be idle."""
    return {
        name: model.scaling.idle_timeout_s
        for name, model in catalog.models.items()
        if model.scaling is not None and model.scaling.is_on_demand and model.profiles
    }
