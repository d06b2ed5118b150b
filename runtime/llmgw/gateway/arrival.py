"""Bring a request as far as its first attempt: may it be asked, by whom, and when.

``pipeline`` calls ``begin`` for each request.  Most go straight on to a ``Dispatch``.  The others
are an ``Arrival`` that ends in one, in a refusal, or with its client: they wait here, for room or
for a model that is being loaded, and cost nothing while they do; the last thing before a refusal
is a fallback model.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

from llmgw.domain.routes import RoutedModel
from llmgw.gateway import picking, refusing, suitability
from llmgw.gateway.admission import Entry
from llmgw.gateway.bands import Band
from llmgw.gateway.dispatch import Dispatch
from llmgw.gateway.early_answer import EarlyAnswer
from llmgw.gateway.endpoints import LiveEndpoint
from llmgw.gateway.exchange import Exchange, State
from llmgw.gateway.holding import HoldEnd
from llmgw.gateway.ports import Client
from llmgw.gateway.replies import Code, Refusal
from llmgw.gateway.scores import Wish
from llmgw.gateway.surroundings import Surroundings
from llmgw.kit import logs

_log = logs.get(__name__)


class _Waits(enum.Enum):
    """What an arrival waits for."""

    FOR_NOTHING = "nothing"
    FOR_ROOM = "room"
    FOR_A_LOAD = "a load"


_COMMENT_EVERY_S: Final = 10.0
"""How often who waits for a load hears that it goes on, where that is wanted."""

# Looked up once, as in ``attempt``.
_FOR_NOTHING: Final = _Waits.FOR_NOTHING
_FOR_ROOM: Final = _Waits.FOR_ROOM
_FOR_A_LOAD: Final = _Waits.FOR_A_LOAD
_ADMITTED: Final = Entry.ADMITTED
_WAITING: Final = Entry.WAITS


def begin(client: Client, exchange: Exchange, model: RoutedModel, shared: Surroundings) -> None:
    """Take the request on; from here on its client's connection talks to whoever has it."""
    shared.books.taken_on()
    try:
        way = _way_straight_on(exchange, model, shared)
    except Exception as error:  # noqa: BLE001 - as of any work that fails
        Arrival(client, exchange, model, shared).on_fault(error)
        return
    if way is None:
        Arrival(client, exchange, model, shared).start()
    else:
        wish, able = way
        Dispatch(client, exchange, model=model, wish=wish, shared=shared).start(able)


def _way_straight_on(
    exchange: Exchange, model: RoutedModel, shared: Surroundings
) -> tuple[Wish, list[LiveEndpoint]] | None:
    """What it wishes and who may be asked, if nothing speaks against it."""
    if suitability.objection(exchange, model, checks_capabilities=shared.checks_capabilities):
        return None
    now = shared.now()
    wish = _wish_of(exchange, model, shared, now)
    owners = shared.registry.owners.get(model.name, ())
    able = picking.eligible(owners, tried=(), now=now, wish=wish)
    if able and shared.admission.lets_in(exchange, model.name, able):
        return wish, able
    return None


def _wish_of(exchange: Exchange, model: RoutedModel, shared: Surroundings, now: float) -> Wish:
    """What it asks of endpoints, its length included as far as any may be too small for it."""
    wish = shared.affinity.wish(exchange, model, now)
    if not exchange.prompt_tokens:
        least_tokens = shared.registry.least_context.get(model.name)
        if least_tokens is not None:
            suitability.measure(exchange, least_tokens)
    wish.prompt_tokens = exchange.prompt_tokens
    return wish


class Arrival:
    """See the module; fits ``ports.Work`` and ``admission.Waiter``."""

    __slots__ = (
        "_client",
        "_early",
        "_exchange",
        "_hold_ends_at",
        "_model",
        "_shared",
        "_waits",
        "_wish",
        "band",
    )

    _wish: Wish

    def __init__(
        self, client: Client, exchange: Exchange, model: RoutedModel, shared: Surroundings
    ) -> None:
        self._client = client
        self._exchange = exchange
        self._model = model
        self._shared = shared
        self._waits = _FOR_NOTHING
        self._early: EarlyAnswer | None = None
        self._hold_ends_at = 0.0
        self.band: Band = shared.admission.band_of(exchange)

    def start(self) -> None:
        """See whether it can be asked, and when."""
        exchange, shared = self._exchange, self._shared
        self._client.work = self
        objection = suitability.objection(
            exchange, self._model, checks_capabilities=shared.checks_capabilities
        )
        if objection is None:
            self._enter()
        else:
            self._refuse(objection)

    # What admission asks and tells

    @property
    def model_name(self) -> str:
        """See ``admission.Waiter``."""
        return self._model.name

    @property
    def project(self) -> str:
        """See ``admission.Waiter``."""
        return self._exchange.project

    @property
    def prompt_tokens(self) -> float:
        """See ``admission.Waiter``."""
        return self._exchange.prompt_tokens or self._exchange.body_bytes / 4

    def pool(self) -> Sequence[LiveEndpoint]:
        """See ``admission.Waiter``."""
        shared = self._shared
        owners = shared.registry.owners.get(self._model.name, ())
        return picking.eligible(owners, tried=(), now=shared.now(), wish=self._wish)

    def on_admitted(self) -> None:
        """See ``admission.Waiter``; its place may have no endpoint left by now."""
        self._waits = _FOR_NOTHING
        try:
            if self.pool():
                self._send()
            else:
                self._find_another_way()
        except Exception as error:  # noqa: BLE001 - others wait behind it
            self.on_fault(error)

    def on_displaced(self) -> None:
        """See ``admission.Waiter``."""
        self._waits = _FOR_NOTHING
        self._give_up_room()

    # What the client's connection tells

    @property
    def has_begun_answer(self) -> bool:
        """See ``ports.Work``."""
        return self._client.has_begun

    def on_client_gone(self) -> None:
        """See ``ports.Work``."""
        self._stop_waiting()
        self._settle(State.CANCELLED)

    def on_paused(self) -> None:
        """See ``ports.Work``: nothing is being written."""

    def on_resumed(self) -> None:
        """See ``ports.Work``."""

    def on_overdue(self) -> None:
        """See ``ports.Work``: it has waited for as long as it may."""
        waited = self._waits
        if waited is _FOR_ROOM:
            self._stop_waiting()
            self._give_up_room()
        elif waited is _FOR_A_LOAD and not self._keep_alive():
            self._stop_waiting(HoldEnd.TIMED_OUT)
            self._give_up_load()

    def on_routes_changed(self) -> None:
        """See ``ports.Work``: the model may have an engine now, or none for good."""
        if self._waits is not _FOR_A_LOAD:
            return  # admission looks for itself
        live = self._live_model()
        if self._is_served():
            self._stop_waiting(HoldEnd.READY)
            self._enter()
        elif not self._shared.loads.may_come(live):
            self._stop_waiting(HoldEnd.FAILED)
            self._give_up_load()

    def cancel(self) -> None:
        """See ``ports.Work``."""
        self._stop_waiting()
        self._refuse(Refusal(Code.SHUTTING_DOWN, retry_after_s=1), state=State.CANCELLED)

    def on_fault(self, error: Exception) -> None:
        """See ``ports.Work``."""
        _log.error("request_failed", request_id=self._exchange.request_id, exc=error)
        self._stop_waiting()
        self._refuse(Refusal(Code.INTERNAL))

    def _enter(self) -> None:
        """Ask to be let through to the endpoints that there are."""
        exchange, shared = self._exchange, self._shared
        now = shared.now()
        self._wish = wish = _wish_of(exchange, self._model, shared, now)
        owners = shared.registry.owners.get(self._model.name, ())
        able = picking.eligible(owners, tried=(), now=now, wish=wish)
        if able:
            self._ask(able)
        else:
            self._find_another_way()

    def _ask(self, able: Sequence[LiveEndpoint]) -> None:
        entry = self._shared.admission.ask(self, able)
        if entry is _ADMITTED:
            self._send()
        elif entry is _WAITING:
            self._waits = _FOR_ROOM
            self._be_due_in(self.band.max_wait_s)
        else:
            self._give_up_room()

    def _send(self) -> None:
        Dispatch(
            self._client, self._exchange, model=self._model, wish=self._wish, shared=self._shared
        ).start()

    def _find_another_way(self) -> None:
        """No endpoint may be asked: wait for a load, or fall back, or probe one early."""
        shared, live = self._shared, self._live_model()
        if not self._is_served() and shared.loads.may_come(live):
            if shared.loads.join(live.name):
                self._waits = _FOR_A_LOAD
                self._hold_ends_at = shared.now() + shared.loads.hold_s
                self._be_due_for_load()
            else:
                self._give_up_load()
            return
        owners = shared.registry.owners.get(self._model.name, ())
        if self._fall_back("no_endpoints"):
            return
        if picking.pick_last_resort(owners, tried=(), wish=self._wish) is not None:
            self._send()
        else:
            self._refuse(self._nobody())

    def _be_due_for_load(self) -> None:
        left_s = self._hold_ends_at - self._shared.now()
        self._be_due_in(min(left_s, _COMMENT_EVERY_S) if self._may_begin_early() else left_s)

    def _may_begin_early(self) -> bool:
        exchange = self._exchange
        return self._shared.loads.keeps_alive and exchange.is_stream and not exchange.is_http10

    def _keep_alive(self) -> bool:
        """Begin the answer, or go on with it, if there is time left to wait for a load."""
        is_over = self._shared.now() >= min(self._hold_ends_at, self._deadline_at())
        if is_over or not self._may_begin_early():
            return False
        if self._early is None:
            self._client = self._early = EarlyAnswer(self._client, self._exchange)
        self._early.comment()
        self._be_due_for_load()
        return True

    def _give_up_room(self) -> None:
        if not self._fall_back("overloaded"):
            self._refuse(self._shared.admission.refusal(self))

    def _give_up_load(self) -> None:
        if not self._fall_back("not_loaded"):
            self._refuse(self._nobody())

    def _nobody(self) -> Refusal:
        """Why nobody can be asked."""
        wish = self._wish
        owners = self._shared.registry.owners.get(self._model.name, ())
        sizes = [one.context_length or 0 for one in owners if one.is_ready]
        if sizes and not any(picking.has_context_for(one, wish) for one in owners if one.is_ready):
            return refusing.too_long(wish.prompt_tokens, max(sizes))
        shared = self._shared
        model = self._live_model()
        return refusing.nobody(model, owners, now=shared.now(), epoch_at=shared.epoch_at)

    def _fall_back(self, reason: str) -> bool:
        """Let another model take it, once; who has waited for room waits no second time."""
        exchange, shared, model = self._exchange, self._shared, self._model
        if not model.fallbacks or exchange.fell_back_from:
            return False
        find = suitability.fallback_of
        chosen = find(model, exchange, shared=shared, wish=self._wish, band=self.band)
        if chosen is None and reason != "overloaded":
            chosen = find(model, exchange, shared=shared, wish=self._wish, band=None)
        if chosen is None:
            return False
        self._model = chosen.model
        self._wish = suitability.fall_back(exchange, chosen.model, reason=reason, shared=shared)
        self._ask(chosen.able)
        return True

    def _live_model(self) -> RoutedModel:
        """The model's entry as it is now: the one taken at the start tells nothing of a load."""
        return self._shared.registry.models.get(self._model.name, self._model)

    def _is_served(self) -> bool:
        owners = self._shared.registry.owners.get(self._model.name, ())
        return any(one.is_ready for one in owners)

    def _be_due_in(self, wait_s: float) -> None:
        self._client.due_at = min(self._shared.now() + wait_s, self._deadline_at())

    def _deadline_at(self) -> float:
        return self._exchange.started_at + self._shared.settings.deadline_s

    def _stop_waiting(self, end: HoldEnd = HoldEnd.GONE) -> None:
        waited, self._waits = self._waits, _FOR_NOTHING
        if waited is _FOR_ROOM:
            self._shared.admission.leave(self)
        elif waited is _FOR_A_LOAD:
            self._shared.loads.leave(self._model.name, end)

    def _refuse(self, refusal: Refusal, *, state: State = State.FAILED) -> None:
        exchange = self._exchange
        exchange.status, exchange.code = refusal.status, refusal.code
        self._settle(state)
        self._client.send(refusal.answer(exchange.request_id), exchange)

    def _settle(self, state: State) -> None:
        exchange = self._exchange
        exchange.forget_content()
        exchange.state = state
        exchange.ended_at = self._shared.now()
        self._shared.books.closed(exchange)
