"""The live registry: what is known of each endpoint beyond its static facts.

``server`` replaces its content with each new route table; ``dispatch`` and ``pipeline`` read it.
An endpoint that survives a replacement keeps its in-flight count, its breaker and its connections;
one that comes back under another address is another process and starts afresh.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from llmgw.domain.routes import EXTERNAL, Endpoint, EndpointState, RoutedModel, RouteTable
from llmgw.errors import Invalid
from llmgw.gateway import costs, headers, ranking, vitals
from llmgw.gateway.board import LoadBoard
from llmgw.gateway.breaker import Breaker, BreakerRules, Outcome, Permit
from llmgw.gateway.breaker_cells import BreakerCells
from llmgw.gateway.bulletin import Bulletin
from llmgw.gateway.choice import Choice
from llmgw.gateway.costs import CostRules, Standing
from llmgw.gateway.descriptors import Descriptors
from llmgw.gateway.metric_names import Reading
from llmgw.gateway.outgoing import Outgoing
from llmgw.gateway.pool import Address, Pool, Shared
from llmgw.gateway.progress import Signs
from llmgw.gateway.reachability import Reachability
from llmgw.gateway.seat import Seat
from llmgw.gateway.vitals import Vitals
from llmgw.kit import logs

_log = logs.get(__name__)

_PROBE_DIAL_S = 2.0


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for every endpoint alike."""

    breaker: BreakerRules
    costs: CostRules
    dial_timeout_s: float
    shared: Shared


class LiveEndpoint(Choice):
    """One endpoint at work: what ``picking`` compares and ``dispatch`` sends to."""

    __slots__ = (
        "_activity",
        "_address",
        "_bulletin",
        "_cost_rules",
        "_fields",
        "_heard_at",
        "_now",
        "_reachability",
        "_request_lines",
        "_vitals",
        "_working_since",
        "failed_looks",
        "is_ejected",
        "is_external",
        "is_listed",
        "lacks",
        "others",
        "pool",
        "probes",
        "seat",
    )

    def __init__(
        self,
        facts: Endpoint,
        *,
        incarnation: int,
        terms: Terms,
        seat: Seat,
        now: Callable[[], float],
    ) -> None:
        """``incarnation`` is a number of its own; raises ``Invalid`` for an undialable address."""
        self._address = Address.of(facts.url)
        self._cost_rules = terms.costs
        self._now = now
        self.breaker = Breaker(terms.breaker, BreakerCells(seat))
        self.breaker.look(now())
        self._reachability = reachability = Reachability(facts.endpoint_id)
        self.pool = Pool(
            self._address,
            dial_timeout_s=terms.dial_timeout_s,
            reachability=reachability,
            shared=terms.shared,
        )
        self.salt = ranking.salt(facts.endpoint_id)
        self.incarnation = incarnation
        self.seat = seat
        self.others = 0.0
        self.probes = Pool(
            self._address,
            dial_timeout_s=_PROBE_DIAL_S,
            reachability=reachability,
            shared=terms.shared,
        )
        self.lacks: tuple[str, ...] = ()
        self.failed_looks = 0
        self.is_ejected = seat.is_ejected
        self._vitals: Vitals | None = None
        self._activity = 0
        self._bulletin = seat.bulletin
        self._heard_at: float | None = None
        self._working_since: float | None = None
        self.update(facts)

    def update(self, facts: Endpoint) -> None:
        """Take new facts over, of the same process."""
        self.facts = facts
        self.is_listed = True
        self.is_external = facts.engine == EXTERNAL
        self._may_serve()
        self._reachability.is_expected = facts.state is EndpointState.READY
        self.weight = facts.weight or 1.0
        self.priority = facts.priority
        self.context_length = facts.context_length
        self._stand()
        self._fields = headers.of_endpoint(facts, host=self._address.authority)
        self._request_lines: dict[bytes, bytes] = {}

    @property
    def latest(self) -> Bulletin | None:
        """What its engine said of itself last, as long as that counts."""
        return self._bulletin if self._is_fresh(self._now()) else None

    @property
    def inflight(self) -> int:
        """Requests that any worker sent there and that have not ended."""
        return self.seat.inflight

    def load(self) -> float:
        """See ``Choice``: at least what is under way, and what other gateways sent too."""
        seat, seen = self.seat, self.standing.seen
        inflight = seat.inflight
        if not inflight or not seen:
            return inflight or seen
        return max(inflight, seen + seat.reserved)

    def occupied(self) -> float:
        """Requests there now: what ended since the last figures makes room at once."""
        return self.seat.inflight + self.others

    def leave(self) -> None:
        """It is no longer in the table; answers under way go on."""
        self.is_listed = False
        self.is_ready = False
        self._reachability.is_expected = False
        self.pool.close()
        self.probes.close()

    def refresh(self, now: float) -> bool:
        """Take over what the board says of it; whether it was taken out of use or back into it."""
        if self.pool.activity != self._activity:
            self._activity = self.pool.activity
            self.seat.progressed(now)
        self.breaker.look(now)
        bulletin, has_aged = self.seat.bulletin, not (self.standing.is_stale or self.is_external)
        if bulletin is not self._bulletin or (has_aged and not self._is_fresh(now)):
            self._bulletin = bulletin
            self._stand()
            self.others = max(self.standing.seen - self.inflight, 0.0)
        was_ejected, self.is_ejected = self.is_ejected, self.seat.is_ejected
        if was_ejected is not self.is_ejected:
            self._may_serve()
        return was_ejected is not self.is_ejected

    def serves(self, model: str) -> bool:
        """Whether it is listed for the model and works, ready or draining."""
        return self.is_listed and not self.is_ejected and model in self.facts.models

    def request_line(self, path: bytes) -> bytes:
        """The begin of a request's head: where it goes, and the fields that all of them carry."""
        line = self._request_lines.get(path)
        if line is None:
            line = b"POST %b%b HTTP/1.1\r\n%b" % (self._address.path, path, self._fields)
            self._request_lines[path] = line
        return line

    def probe_request(self, path: bytes) -> bytes:
        """A whole request for a page beside its models."""
        return b"GET %b%b HTTP/1.1\r\n%b\r\n" % (self._address.path, path, self._fields)

    def watched(self, since: float) -> None:
        """This worker begins to probe it: only from now on can it be silent, or hang still."""
        self._heard_at = 0.0 if self.seat.is_ejected else since

    def heard(self, at: float) -> None:
        """It answered a probe."""
        self._heard_at = at

    def take(self, reading: Reading, *, at: float) -> None:
        """Its engine described itself; all workers hear of it."""
        if self._vitals is None:
            seen = vitals.begin(reading, at=at)
        else:
            seen = vitals.fold(self._vitals, reading, at=at)
        self._vitals = seen
        self.seat.publish(
            Bulletin(
                running=reading.running,
                waiting=reading.waiting,
                kv=reading.kv,
                drain=seen.drain,
                capacity=seen.most_running,
                is_proven=seen.had_queue,
                scraped_at=at,
            )
        )

    def signs(self, now: float) -> Signs:
        """What tells whether it makes progress."""
        seen = self._vitals
        if self.inflight or (seen is not None and seen.reading.running):
            self._working_since = now if self._working_since is None else self._working_since
        else:
            self._working_since = None
        tells = seen is not None and seen.reading.is_steady
        return Signs(
            heard_at=self._heard_at,
            sent_at=self.seat.progressed_at or 0.0,
            moved_at=seen.moved_at if seen is not None and tells else None,
            working_since=self._working_since,
            worked_at=self.seat.worked_at,
            looked_at=self.seat.looked_at,
        )

    def learn(self, outcome: Outcome, permit: Permit) -> None:
        """Tell the breaker how an attempt went that had ``permit``."""
        self.breaker.record(outcome, self._now(), permit=permit)

    def _may_serve(self) -> None:
        self.is_ready = (
            self.is_listed and self.facts.state is EndpointState.READY and not self.is_ejected
        )

    def _is_fresh(self, now: float) -> bool:
        return self._bulletin.is_fresh(now, self._cost_rules.stale_after_s)

    def _stand(self) -> None:
        """Work out anew what requests cost it."""
        seen, weight, rules = self._bulletin, self.weight, self._cost_rules
        if self.is_external or not self._is_fresh(self._now()):
            self.standing = Standing.unseen(
                weight=weight, is_external=self.is_external, rules=rules
            )
        else:
            runs = seen.runs(prior=rules.default_capacity)
            self.standing = Standing(
                seen=seen.running + seen.waiting,
                waiting=seen.waiting,
                capacity=runs if seen.is_proven else runs * weight,
                share=runs * weight,
                kv=seen.kv,
                drain=seen.drain,
                is_stale=False,
                is_capacity_proven=seen.is_proven,
                target_waiting=rules.target_waiting,
                kv_ceiling=rules.kv_ceiling,
            )
        self.curves = costs.curves(self.standing)


class Registry:
    """All live endpoints, and the models as they are now.

    ``owners`` says who lists a model, in the order of their ids, ``least_context`` the smallest
    context length among those of whom it is known.
    """

    def __init__(
        self,
        *,
        rules: BreakerRules,
        cost_rules: CostRules | None = None,
        dial_timeout_s: float,
        now: Callable[[], float],
        board: LoadBoard | None = None,
        shared: Shared | None = None,
    ) -> None:
        """Without ``board`` this process is alone; without ``shared`` its connections are."""
        self._board = board or LoadBoard.private(now=now)
        self._terms = Terms(
            breaker=rules,
            costs=cost_rules or CostRules(),
            dial_timeout_s=dial_timeout_s,
            shared=shared or Shared(Outgoing(), Descriptors(now=now)),
        )
        self._now = now
        self._incarnations = itertools.count(1)
        self._by_id: dict[str, LiveEndpoint] = {}
        self.models: Mapping[str, RoutedModel] = {}
        self.owners: Mapping[str, tuple[LiveEndpoint, ...]] = {}
        self.least_context: Mapping[str, int] = {}

    def replace(self, table: RouteTable) -> None:
        """Take a whole new table; what it does not list any more leaves."""
        self._board.look()
        before, self._by_id = self._by_id, {}
        for facts in table.endpoints:
            if (live := self._adopted(before, facts)) is not None:
                self._by_id[facts.endpoint_id] = live
        for live in before.values():
            live.leave()
            self._board.leave(live.seat)
        self.models = table.models
        self.owners = _owners(self._by_id.values())
        self.least_context = _least_context(self.owners)

    def all(self) -> Collection[LiveEndpoint]:
        """Every listed endpoint."""
        return self._by_id.values()

    def close_idle(self) -> None:
        """Close every connection that is kept for later requests; probes keep theirs."""
        for live in self._by_id.values():
            live.pool.close_idle()

    def _adopted(self, before: dict[str, LiveEndpoint], facts: Endpoint) -> LiveEndpoint | None:
        known = before.get(facts.endpoint_id)
        if known is not None and known.facts.url == facts.url:
            del before[facts.endpoint_id]
            known.update(facts)
            return known
        try:
            return LiveEndpoint(
                facts,
                incarnation=next(self._incarnations),
                terms=self._terms,
                seat=self._board.seat(facts.endpoint_id, facts.url),
                now=self._now,
            )
        except Invalid as error:
            _log.error("endpoint_refused", endpoint=facts.endpoint_id, reason=error.message)
            return None


def _owners(lives: Collection[LiveEndpoint]) -> dict[str, tuple[LiveEndpoint, ...]]:
    owners: dict[str, list[LiveEndpoint]] = {}
    for live in sorted(lives, key=lambda one: one.facts.endpoint_id):
        for model in live.facts.models:
            owners.setdefault(model, []).append(live)
    return {model: tuple(of_model) for model, of_model in owners.items()}


def _least_context(owners: Mapping[str, tuple[LiveEndpoint, ...]]) -> dict[str, int]:
    least: dict[str, int] = {}
    for model, of_model in owners.items():
        known = [one.context_length for one in of_model if one.context_length is not None]
        if known:
            least[model] = min(known)
    return least
