"""Answer what needs no engine: models, receipts of requests, health, readiness, the landing page.

``pipeline`` asks it for every path that runs no model.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from llmgw.domain.names import REQUEST_ID
from llmgw.domain.principals import may_use
from llmgw.domain.routes import ModelState, RoutedModel
from llmgw.gateway.endpoints import Registry
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.ports import RouteSource
from llmgw.gateway.receipts import asked_for
from llmgw.gateway.replies import Answer, Code, Refusal

_MODELS = b"/v1/models"
_RECEIPTS = b"/v1/requests/"
_READS = (b"GET", b"HEAD")
_ANY = (*_READS, b"POST")
_UNKNOWN = "No request of this id is known here: receipts are kept in memory, and only for a while."
_OFFERED_UNREADY = frozenset({ModelState.LOADING, ModelState.ON_DEMAND})

_Make = Callable[[Exchange], Answer | Refusal]

_LANDING_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>llmgw</title></head><body>
<h1>llmgw</h1>
<p>This is an OpenAI-compatible endpoint.  Set the base URL of your client to
<code>ADDRESS</code>.</p>
</body></html>
"""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a request could go somewhere: nothing speaks against it."""

    reasons: tuple[str, ...]
    table_age_s: float | None

    @property
    def is_ready(self) -> bool:
        """No reason against it."""
        return not self.reasons


class LocalRoutes:
    """The answers of the gateway itself."""

    def __init__(
        self,
        *,
        routes: RouteSource,
        registry: Registry,
        readiness: Callable[[], Readiness],
        receipt: Callable[[str], bytes | None],
    ) -> None:
        """``receipt`` finds that of a request that ended, by its id."""
        self._routes = routes
        self._receipt = receipt
        self._registry = registry
        self._readiness = readiness
        self._by_path: dict[bytes, _Make] = {
            b"/": _landing,
            b"/health": _health,
            b"/ready": self._ready,
            _MODELS: self._models,
        }
        self._by_begin: tuple[tuple[bytes, _Make], ...] = (
            (_MODELS + b"/", self._model),
            (_RECEIPTS, self._told),
        )

    def answer(self, exchange: Exchange) -> Answer | Refusal:
        """The answer for a path that runs no model."""
        if exchange.path == b"*":
            return other_method(exchange, allowed=_ANY)
        make = self._by_path.get(exchange.path)
        if make is None:
            make = next(
                (one for begin, one in self._by_begin if exchange.path.startswith(begin)), None
            )
        if make is None:
            return Refusal(Code.NOT_FOUND)
        if exchange.method not in _READS:
            return other_method(exchange, allowed=_READS)
        return make(exchange)

    def asked_receipt(self, exchange: Exchange) -> str | None:
        """The request whose receipt is asked for, as ``receipts`` names it, if that can be one."""
        if not (exchange.path.startswith(_RECEIPTS) and exchange.method in _READS):
            return None
        named = exchange.path[len(_RECEIPTS) :].decode(errors="replace")
        return asked_for(named, exchange) if REQUEST_ID.fullmatch(named) else None

    def _models(self, exchange: Exchange) -> Answer:
        table = self._routes.current()
        models = [table.models[name] for name in sorted(table.models)]
        entries = [self._entry(model) for model in models if _may_see(exchange, model)]
        listed = [entry for entry in entries if entry is not None]
        return Answer(200, orjson.dumps({"object": "list", "data": listed}))

    def _model(self, exchange: Exchange) -> Answer | Refusal:
        name = exchange.path[len(_MODELS) + 1 :].decode(errors="replace")
        model = self._routes.current().resolve(name)
        is_theirs = model is not None and _may_see(exchange, model)
        entry = self._entry(model) if model is not None and is_theirs else None
        if entry is None:
            return Refusal(Code.MODEL_NOT_FOUND)
        return Answer(200, orjson.dumps(entry))

    def _told(self, exchange: Exchange) -> Answer | Refusal:
        receipt = self._receipt(self.asked_receipt(exchange) or "")
        return Refusal(Code.NOT_FOUND, _UNKNOWN) if receipt is None else Answer(200, receipt)

    def _entry(self, model: RoutedModel) -> dict[str, Any] | None:
        """What is shown of a model, or nothing while it cannot serve; unknown facts have no key."""
        state = self._state(model)
        if state is None:
            return None
        entry: dict[str, Any] = {
            "id": model.name,
            "object": "model",
            "created": model.created_at,
            "owned_by": model.owned_by,
        }
        if model.aliases:
            entry["aliases"] = model.aliases
        if model.description is not None:
            entry["description"] = model.description
        if model.context_length is not None:
            entry["context_length"] = entry["max_model_len"] = model.context_length
        if model.capabilities:
            entry["capabilities"] = model.capabilities
        return entry | {"llmgw": {"state": state}}

    def _state(self, model: RoutedModel) -> ModelState | None:
        if any(one.is_ready for one in self._registry.owners.get(model.name, ())):
            return ModelState.READY
        return model.state if model.state in _OFFERED_UNREADY else None

    def _ready(self, exchange: Exchange) -> Answer:  # noqa: ARG002 - the same for everybody
        readiness = self._readiness()
        body = {
            "ready": readiness.is_ready,
            "reasons": readiness.reasons,
            "table_age_s": readiness.table_age_s,
        }
        return Answer(200 if readiness.is_ready else 503, orjson.dumps(body))


def _may_see(exchange: Exchange, model: RoutedModel) -> bool:
    """Whether its key may use the model; without keys everybody may."""
    grant = exchange.grant
    return grant is None or may_use(grant.principal, model.name, model.aliases)


def other_method(exchange: Exchange, *, allowed: tuple[bytes, ...]) -> Answer | Refusal:
    """What a method gets that a path does not serve."""
    allow = b", ".join((*allowed, b"OPTIONS"))
    if exchange.method == b"OPTIONS":
        return Answer(204, b"", fields=((b"allow", allow),))
    return Refusal(Code.METHOD_NOT_ALLOWED, allow=allow.decode())


def _health(exchange: Exchange) -> Answer:  # noqa: ARG001 - the process answers, so it is up
    return Answer(200, b'{"status":"ok"}')


def _landing(exchange: Exchange) -> Answer:
    """A page for people who open the address; it names no model."""
    host = html.escape(exchange.headers.get(b"host", b"").decode("latin-1"))
    address = f"http://{host}/v1" if host else "/v1"
    page = _LANDING_PAGE.replace("ADDRESS", address)
    return Answer(200, page.encode(), content_type=b"text/html; charset=utf-8")
