"""Make a request's wish from what it says of itself, and learn from what became of it.

``dispatch`` asks for a ``Wish`` before its first pick, tells the outcome of it once, and tells when
an engine has begun to answer.  One a worker; with prefix affinity off it keeps nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llmgw.config.carrying import RouterSettings
from llmgw.domain.routes import RoutedModel
from llmgw.gateway import heads, sessions
from llmgw.gateway.costs import WEIGHTS
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.prefix import Following, PrefixRules, PrefixTree
from llmgw.gateway.scores import Wish

_EMBEDDINGS: Final = b"/v1/embeddings"

_TELLING_BYTES: Final = 256
"""How much of a head orders equals: the least that tells conversations apart and soon stays."""


class Affinity:
    """See the module; ``following`` counts what became of wishes to follow a prefix."""

    def __init__(self, settings: RouterSettings) -> None:
        self._default_weights = WEIGHTS[settings.default_profile]
        self._session_header = settings.session_header.lower().encode()
        self._session_load_factor = settings.session_load_factor
        self._head_bytes = settings.prefix.head_bytes
        self._tree = PrefixTree(_rules(settings)) if settings.prefix.enabled else None
        self._following = dict.fromkeys(Following, 0)

    @property
    def following(self) -> Mapping[Following, int]:
        """How many requests' wish to follow a prefix ended how; nothing while it is off."""
        return dict(self._following) if self._tree is not None else {}

    @property
    def nodes(self) -> int:
        """How many beginnings are remembered."""
        return 0 if self._tree is None else len(self._tree)

    def wish(self, exchange: Exchange, model: RoutedModel, now: float) -> Wish:
        """What this request asks of the model's endpoints."""
        weights = WEIGHTS.get(model.routing_profile, self._default_weights)
        wish = Wish(exchange.request_key, weights=weights)
        if not weights.may_vary:
            return wish
        if self._tree is not None and exchange.path != _EMBEDDINGS:
            head = heads.head_of(exchange.body, self._head_bytes)
            wish.trail = self._tree.trail(model.name.encode(), head, now)
            wish.key = head[:_TELLING_BYTES] or wish.key
        named = exchange.headers.get(self._session_header)
        if name := named.decode("latin-1") if named else exchange.session_hint:
            wish.key = sessions.key_of(exchange.project, name)
            wish.session_load_factor = self._session_load_factor
        return wish

    def count(self, following: Following | None) -> None:
        """The first attempt of a request was decided, and this is what its prefix had to do."""
        if following is not None:
            self._following[following] += 1

    def learn(self, wish: Wish, incarnation: int, now: float) -> None:
        """The endpoint has read this request's prompt: it begins to answer well."""
        trail, wish.trail = wish.trail, None
        if trail is None or self._tree is None:
            return
        if not trail.is_known_of(incarnation, now=now):
            self._tree.insert(trail.model, trail.head, incarnation=incarnation, now=now)


def _rules(settings: RouterSettings) -> PrefixRules:
    prefix = settings.prefix
    return PrefixRules(
        min_match_bytes=prefix.min_match,
        match_ratio=prefix.match_ratio,
        balance_abs=prefix.balance_abs,
        balance_rel=prefix.balance_rel,
        ttl_s=prefix.ttl,
        max_nodes=prefix.max_nodes,
    )
