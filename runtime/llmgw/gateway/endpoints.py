"""The live registry: what is known of each endpoint beyond its static facts.

``server`` replaces its content with each new route table; ``dispatch`` and ``pipeline`` read it.
An endpoint that survives a replacement keeps its in-flight count, its breaker and its connections;
one that comes back under another address is another process and starts afresh.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping

from llmgw.domain.routes import EXTERNAL, Endpoint, EndpointState, RouteTable
from llmgw.errors import Invalid
from llmgw.gateway import costs, headers, rendezvous
from llmgw.gateway.breaker import Breaker, BreakerRules, Outcome, Permit
from llmgw.gateway.costs import CostRules, Curve, Standing
from llmgw.gateway.pool import Address, Pool
from llmgw.kit import logs

_log = logs.get(__name__)


class LiveEndpoint:
    """One endpoint at work: what ``picking`` compares and ``dispatch`` sends to."""

    __slots__ = (
        "_address",
        "_cost_rules",
        "_fields",
        "_now",
        "_request_lines",
        "breaker",
        "context_length",
        "curves",
        "facts",
        "incarnation",
        "inflight",
        "is_listed",
        "is_ready",
        "pool",
        "priority",
        "salt",
        "standing",
        "weight",
    )

    def __init__(
        self,
        facts: Endpoint,
        *,
        incarnation: int,
        rules: BreakerRules,
        cost_rules: CostRules,
        dial_timeout_s: float,
        now: Callable[[], float],
    ) -> None:
        """``incarnation`` is a number of its own; raises ``Invalid`` for an undialable address."""
        self._address = Address.of(facts.url)
        self._cost_rules = cost_rules
        self._now = now
        self.breaker = Breaker(rules)
        self.pool = Pool(self._address, dial_timeout_s=dial_timeout_s)
        self.salt = rendezvous.salt(facts.endpoint_id)
        self.incarnation = incarnation
        self.inflight = 0
        self.update(facts)

    def update(self, facts: Endpoint) -> None:
        """Take new facts over, of the same process."""
        self.facts = facts
        self.is_listed = True
        self.is_ready = facts.state is EndpointState.READY
        self.weight = facts.weight or 1.0
        self.priority = facts.priority
        self.context_length = facts.context_length
        self._stand()
        self._fields = headers.of_endpoint(facts, host=self._address.authority)
        self._request_lines: dict[bytes, bytes] = {}

    def load(self) -> float:
        """See ``picking.Choice``."""
        return max(self.inflight, self.standing.seen)

    def leave(self) -> None:
        """It is no longer in the table; answers under way go on."""
        self.is_listed = False
        self.is_ready = False
        self.pool.close()

    def serves(self, model: str) -> bool:
        """Whether it is listed for the model now, ready or draining."""
        return self.is_listed and model in self.facts.models

    def request_line(self, path: bytes) -> bytes:
        """The begin of a request's head: where it goes, and the fields that all of them carry."""
        line = self._request_lines.get(path)
        if line is None:
            line = b"POST %b%b HTTP/1.1\r\n%b" % (self._address.path, path, self._fields)
            self._request_lines[path] = line
        return line

    def learn(self, outcome: Outcome, permit: Permit) -> None:
        """Tell the breaker how an attempt went that had ``permit``."""
        self.breaker.record(outcome, self._now(), permit=permit)

    def _stand(self) -> None:
        """Work out anew what requests cost it."""
        self.standing = Standing.unseen(
            weight=self.weight, is_external=self.facts.engine == EXTERNAL, rules=self._cost_rules
        )
        self.curves: Mapping[str, Curve] = costs.curves(self.standing)


class Registry:
    """All live endpoints; ``owners`` says who lists a model now, in the order of their ids."""

    def __init__(
        self,
        *,
        rules: BreakerRules,
        cost_rules: CostRules | None = None,
        dial_timeout_s: float,
        now: Callable[[], float],
    ) -> None:
        self._rules = rules
        self._cost_rules = cost_rules or CostRules()
        self._dial_timeout_s = dial_timeout_s
        self._now = now
        self._incarnations = itertools.count(1)
        self._by_id: dict[str, LiveEndpoint] = {}
        self.owners: Mapping[str, tuple[LiveEndpoint, ...]] = {}

    def replace(self, table: RouteTable) -> None:
        """Take a whole new table; what it does not list any more leaves."""
        before, self._by_id = self._by_id, {}
        for facts in table.endpoints:
            if (live := self._adopted(before, facts)) is not None:
                self._by_id[facts.endpoint_id] = live
        for live in before.values():
            live.leave()
        self.owners = _owners(self._by_id.values())

    def all(self) -> Collection[LiveEndpoint]:
        """Every listed endpoint."""
        return self._by_id.values()

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
                rules=self._rules,
                cost_rules=self._cost_rules,
                dial_timeout_s=self._dial_timeout_s,
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
