"""Bring one request to an engine: rounds of pick and send until the first body byte.

``arrival`` begins a ``Dispatch`` for each request that was let through.  It is a state machine of
callbacks, so a request whose engine is at hand needs no task: the client's connection tells it what
the client does, its ``Attempt`` what the engine does, and ``server`` when time is up or routes have
changed.  Retries live here and nowhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from llmgw.domain.routes import RoutedModel
from llmgw.gateway import candidates, headers, picking, refusing, rounds, sending, silence
from llmgw.gateway.attempt import Attempt
from llmgw.gateway.breaker import Outcome, Permit
from llmgw.gateway.endpoints import LiveEndpoint
from llmgw.gateway.exchange import ENGINES_FAULTS, Cut, Exchange, State
from llmgw.gateway.outcomes import ENDINGS, Ending, Then
from llmgw.gateway.ports import NEVER, Client
from llmgw.gateway.relaying import Manner, Relay
from llmgw.gateway.replies import Code, Refusal
from llmgw.gateway.responses import ResponseHead
from llmgw.gateway.scores import Wish
from llmgw.gateway.silence import Patience, Silence
from llmgw.gateway.surroundings import Surroundings
from llmgw.kit import logs

_log = logs.get(__name__)

# Looked up once, as in ``attempt``.
_ORDINARY: Final = Permit.ORDINARY
_REFUSED: Final = Permit.REFUSED
_COMPLETED: Final = State.COMPLETED
_FAILED: Final = State.FAILED


class Dispatch:
    """One request on its way to an engine and back; fits ``ports.Work`` and ``attempt.Owner``."""

    __slots__ = (
        "_attempt",
        "_client",
        "_exchange",
        "_is_cancelled",
        "_is_over",
        "_model",
        "_relay",
        "_rounds",
        "_shared",
        "_silence",
        "_tried",
        "_wish",
    )

    def __init__(
        self,
        client: Client,
        exchange: Exchange,
        *,
        model: RoutedModel,
        wish: Wish,
        shared: Surroundings,
    ) -> None:
        self._client = client
        self._exchange = exchange
        self._model = model
        self._wish = wish
        self._shared = shared
        self._attempt: Attempt | None = None
        self._relay: Relay | None = None
        self._silence: Silence | None = None
        self._rounds: rounds.Rounds | None = None
        self._tried: tuple[LiveEndpoint, ...] = ()
        self._is_cancelled = False
        self._is_over = False

    def start(self, able: list[LiveEndpoint] | None = None) -> None:
        """Send; from here on the client's connection talks to this object.

        ``able`` are the endpoints that may be asked, where that is known already.
        """
        self._shared.admission.hold(self)
        self._client.work = self
        self._next(able)

    @property
    def is_over(self) -> bool:
        """See ``admission.Lease``."""
        return self._is_over

    @property
    def has_begun_answer(self) -> bool:
        """See ``ports.Work``."""
        return self._relay is not None or self._client.has_begun

    @property
    def wants_payload(self) -> bool:
        """See ``attempt.Owner``."""
        return self._exchange.is_http10 or self._exchange.is_usage_hidden

    def on_client_gone(self) -> None:
        """See ``ports.Work``: the engine learns it in the same step; nobody is blamed."""
        self._end_attempt()
        self._settle(State.CANCELLED)

    def on_paused(self) -> None:
        """See ``ports.Work``."""
        if self._relay is not None:
            self._relay.pause()

    def on_resumed(self) -> None:
        """See ``ports.Work``."""
        if self._relay is not None:
            self._relay.resume()

    def on_overdue(self) -> None:
        """See ``ports.Work``."""
        if self._relay is not None:
            self._look_for_silence(self._relay)
        elif self._attempt is not None:
            self._attempt.time_out()

    def on_routes_changed(self) -> None:
        """See ``ports.Work``: leave an endpoint that left or hangs, go to one that came."""
        model = self._model.name
        if self._rounds is not None and self._rounds.is_waiting:
            owners = self._shared.registry.owners.get(model, ())
            if any(one.is_ready and one not in self._tried for one in owners):
                self._wake()
        elif self._attempt is not None and not self._attempt.live.serves(model):
            is_ejected = self._attempt.live.is_ejected
            self._attempt.abandon(Ending.NO_PROGRESS if is_ejected else Ending.ENDPOINT_LEFT)

    def cancel(self) -> None:
        """See ``ports.Work``."""
        self._is_cancelled = True
        if self._relay is not None:
            self._relay.cut(Cut.STOPPING)
        else:
            self._end_attempt()
            self._refuse(Refusal(Code.SHUTTING_DOWN, retry_after_s=1))

    def on_fault(self, error: Exception) -> None:
        """See ``ports.Work`` and ``attempt.Owner``: the client must not wait for nothing."""
        _log.error("request_failed", request_id=self._exchange.request_id, exc=error)
        if self._is_over:
            self._client.break_off(resets=True)
        elif self._relay is not None:
            self._relay.cut(Cut.FAULT)
        else:
            self._end_attempt()
            self._refuse(Refusal(Code.INTERNAL))

    def on_sent(self) -> None:
        """See ``attempt.Owner``."""
        exchange = self._exchange
        exchange.sent_at = now = self._shared.now()
        exchange.first_sent_at = exchange.first_sent_at or now
        most_s = self._shared.settings.response_timeout_s
        self._client.due_at = now + most_s if most_s else NEVER

    def on_head(self) -> None:
        """See ``attempt.Owner``."""
        most_s = self._shared.settings.response_timeout_s
        self._client.due_at = self._shared.now() + most_s if most_s else NEVER

    def on_failed(self, ending: Ending, reason: str) -> None:
        """See ``attempt.Owner``."""
        self._shared.books.attempt_failed(self._exchange, ending.value)
        endpoint_id = self._exchange.endpoint_id
        _log.debug("attempt_failed", endpoint=endpoint_id, ending=ending.value, reason=reason[:256])
        then, code = ENDINGS[ending].then, ENDINGS[ending].code
        if code is not None and then is Then.ANSWER:
            self._refuse(Refusal(code, retry_after_s=1))
        elif code is not None and self._was_last_attempt():
            self._refuse(Refusal(code))
        else:
            self._next_elsewhere()

    def on_success(self, head: ResponseHead, body: bytes) -> None:
        """See ``attempt.Owner``: an answer that came whole in one read needs no relay."""
        exchange, client = self._exchange, self._client
        exchange.status = status = head.status
        exchange.first_byte_at = self._shared.now()
        self._shared.books.committed(exchange)
        self._learn()
        client.closes_after(exchange)
        body = self._shared.books.whole(exchange, body, is_events=head.is_events)
        answer = headers.answer_head(head, exchange) + body
        self._settle(_COMPLETED if status < 300 else _FAILED)
        client.write(answer)
        client.finish()

    def on_answer(self, data: bytes, *, is_whole: bool) -> None:
        """See ``attempt.Owner``: commit to this answer, or try elsewhere."""
        attempt = self._attempt
        if attempt is None:
            return
        verdict = attempt.verdict
        if verdict.then is Then.RETRY and not self._was_last_attempt():
            self._shared.books.attempt_failed(self._exchange, f"status_{attempt.head.status}")
            attempt.discard(is_whole=is_whole)
            self._next_elsewhere()
        elif verdict.code is not None:
            attempt.discard(is_whole=is_whole)
            self._refuse(Refusal(verdict.code))
        else:
            self._commit(attempt, data, is_whole=is_whole)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """See ``attempt.Owner``."""
        return self._shared.tasks.spawn("dial", work)

    def _next(self, able: list[LiveEndpoint] | None = None) -> None:
        """Send to the best endpoint that this round has not tried."""
        exchange, shared = self._exchange, self._shared
        owners = shared.registry.owners.get(self._model.name, ())
        now = shared.now()
        if exchange.attempts and now >= self._deadline():
            self._refuse(refusing.too_late(owners))
            return
        wish = self._wish
        if able is None:
            able = picking.eligible(owners, tried=self._tried, now=now, wish=wish)
        picked = picking.choose(able, now=now, wish=wish) if able else None
        if shared.books.wants_reasons(now):
            considered = candidates.explain(
                owners, tried=self._tried, now=now, wish=wish, picked=picked
            )
            shared.books.decided(exchange, considered, picked)
        if picked is not None:
            live = picked.choice
            breaker = live.breaker
            permit = _ORDINARY if breaker.is_closed else breaker.take(now)
            if permit is _REFUSED:
                self._next()  # another worker probes it, so it is not picked again
                return
            if not exchange.attempts:
                shared.affinity.count(picked.following)
            self._send_to(live, permit)
        elif last := picking.pick_last_resort(owners, tried=self._tried, wish=wish):
            permit = last.breaker.take(now, is_forced=True)
            if permit is _REFUSED:
                self._next()
                return
            self._send_to(last, permit)
        else:
            self._end_round(owners, now)

    def _send_to(self, live: LiveEndpoint, permit: Permit) -> None:
        exchange = self._exchange
        try:
            request = sending.request_to(live, exchange)
        except Exception as error:
            live.learn(Outcome.NEUTRAL, permit)  # nothing was sent
            if not isinstance(error, sending.BodyUnreadable):
                raise
            self._refuse(Refusal(Code.INVALID_JSON))
            return
        exchange.attempts += 1
        exchange.endpoint_id = live.facts.endpoint_id
        self._shared.books.sending(exchange, live)
        self._attempt = attempt = Attempt(self, live, permit)
        attempt.start(request)

    def _next_elsewhere(self) -> None:
        if self._attempt is not None:
            self._tried += (self._attempt.live,)
            self._attempt = None
        self._next()

    def _end_round(self, owners: tuple[LiveEndpoint, ...], now: float) -> None:
        """Nobody is left to try: answer if nothing was sent yet, else go on after a wait."""
        if not self._exchange.attempts:
            epoch_at = self._shared.epoch_at
            self._refuse(refusing.nobody(self._model, owners, now=now, epoch_at=epoch_at))
            return
        shared = self._shared
        successor = rounds.fall_back(
            self._exchange, self._model, owners=owners, wish=self._wish, shared=shared
        )
        if successor is not None:
            self._model, self._wish = successor
            self._next()
            return
        if self._rounds is None:
            self._rounds = rounds.Rounds(self._wake)
        self._rounds.wait(most_s=max(self._deadline() - now, 0.0), draw=shared.draw())

    def _wake(self) -> None:
        if self._rounds is not None:
            self._rounds.stop()
        self._tried = ()
        try:
            self._next()
        except Exception as error:  # noqa: BLE001 - a timer has nobody else to tell
            self.on_fault(error)

    def _commit(self, attempt: Attempt, data: bytes, *, is_whole: bool) -> None:
        """From here on the answer is this engine's, whatever happens."""
        exchange, client, framing = self._exchange, self._client, attempt.framing
        if framing is None:
            attempt.finish(is_truncated=False)
            self.on_success(attempt.head, data)
            return
        exchange.status = attempt.head.status
        exchange.first_byte_at = self._shared.now()
        self._shared.books.committed(exchange)
        self._learn()
        profile = self._model.routing_profile
        client.due_at = exchange.first_byte_at + self._patience().look_every_s(profile)
        exchange.closes = client.closes_after(exchange) or framing.ends_at_close()
        head = headers.answer_head(attempt.head, exchange)
        manner = Manner.of(exchange, is_events=attempt.head.is_events)
        exchange.forget_content()
        self._relay = relay = Relay(
            client,
            connection=attempt.connection,
            framing=framing,
            manner=manner,
            on_end=self._on_relayed,
        )
        if attempt.held:
            head = relay.with_held(head, attempt.held)
        if is_whole:
            relay.begin_with_last(head, data)
        else:
            relay.begin(head, data)

    def _learn(self) -> None:
        """An engine begins to answer: it has read the prompt, unless it complains."""
        exchange, attempt, wish = self._exchange, self._attempt, self._wish
        if wish.trail is not None and attempt is not None and exchange.status < 300:
            self._shared.affinity.learn(wish, attempt.live.incarnation, exchange.first_byte_at)

    def _patience(self) -> Patience:
        return self._shared.patience if self._exchange.status < 300 else silence.WITH_REFUSALS

    def _look_for_silence(self, relay: Relay) -> None:
        """See whether the answer still brings something."""
        now, attempt, client = self._shared.now(), self._attempt, self._client
        if self._silence is None:
            profile = self._model.routing_profile
            self._silence = Silence(self._patience(), profile=profile, begun_at=now)
        is_stuck = attempt is not None and attempt.live.is_ejected
        cut = self._silence.look(relay, now=now, is_excused=client.is_paused, is_stuck=is_stuck)
        if cut is None:
            client.due_at = now + self._silence.look_every_s
        else:
            relay.cut(cut)

    def _on_relayed(self, cut: Cut | None) -> None:
        self._exchange.cut = cut
        if self._attempt is not None:
            self._attempt.finish(is_truncated=cut in ENGINES_FAULTS)
        self._settle(State.COMPLETED if self._exchange.status < 300 else State.FAILED)

    def _refuse(self, refusal: Refusal) -> None:
        exchange = self._exchange
        exchange.status, exchange.code = refusal.status, refusal.code
        self._settle(State.FAILED)
        self._client.send(refusal.answer(exchange.request_id), exchange)

    def _end_attempt(self) -> None:
        if self._relay is not None:
            self._relay.stop()
        if self._attempt is not None:
            self._attempt.abandon()
            self._attempt.finish(is_truncated=False)

    def _settle(self, state: State) -> None:
        """Close the account, once, whatever happened."""
        if self._is_over:
            return
        self._is_over = True
        if self._rounds is not None:
            self._rounds.stop()
        exchange, books = self._exchange, self._shared.books
        exchange.forget_content()
        if self._relay is not None:
            books.relayed(exchange, self._relay)
        self._attempt = self._relay = self._rounds = None  # they refer back to this object
        exchange.state = State.CANCELLED if self._is_cancelled else state
        exchange.ended_at = self._shared.now()
        usage = exchange.usage
        self._shared.admission.release(
            self,
            project=exchange.project,
            output_tokens=0 if usage is None else usage.completion_tokens,
        )
        books.closed(exchange)

    def _deadline(self) -> float:
        return self._exchange.started_at + self._shared.settings.deadline_s

    def _was_last_attempt(self) -> bool:
        return self._exchange.attempts >= self._shared.settings.max_attempts
