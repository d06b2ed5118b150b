"""One send of one request to one endpoint, up to its first body byte.

``dispatch`` starts an attempt and hears its end exactly once: it failed, or the engine answers.  An
attempt that was abandoned says nothing any more; so of a first byte and an abandonment in the same
moment, whichever comes first acts and the other finds nobody.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Coroutine
from typing import Any, Final, Protocol

from llmgw.errors import Exhausted, Unreachable
from llmgw.gateway import preamble
from llmgw.gateway.breaker import Outcome, Permit
from llmgw.gateway.endpoints import LiveEndpoint
from llmgw.gateway.framing import Framing
from llmgw.gateway.outcomes import ENDINGS, PASS_ON, VERDICTS, Ending, Then, Verdict, judge_loading
from llmgw.gateway.responses import ResponseHead
from llmgw.gateway.upstream import Receiver, UpstreamConnection


class Owner(Protocol):
    """Who started the attempt; ``wants_payload`` where its client gets the bare payload."""

    @property
    def wants_payload(self) -> bool:
        """See ``upstream.Receiver``."""
        ...

    def on_sent(self) -> None:
        """The request is on its way; now the engine has to begin its answer."""
        ...

    def on_head(self) -> None:
        """The engine has begun its answer; now the body has to begin."""
        ...

    def on_failed(self, ending: Ending, reason: str) -> None:
        """The attempt is over, without an answer."""
        ...

    def on_success(self, head: ResponseHead, body: bytes) -> None:
        """The attempt is over, with a whole 2xx answer that came at once."""
        ...

    def on_answer(self, data: bytes, *, is_whole: bool) -> None:
        """The attempt is over, with the first bytes of an answer's body or all that there are."""
        ...

    def on_fault(self, error: Exception) -> None:
        """Something failed by a fault of our own."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run what has to wait."""
        ...


class Phase(enum.Enum):
    """Where an attempt stands."""

    NEW = "new"
    DIAL = "dial"
    SENT = "sent"
    HEAD = "head"
    ANSWERED = "answered"
    OVER = "over"


# Looked up once: on Python 3.11 the look-up on an Enum costs as much as a call, for each request.
_NEW: Final = Phase.NEW
_DIAL: Final = Phase.DIAL
_SENT: Final = Phase.SENT
_HEAD: Final = Phase.HEAD
_ANSWERED: Final = Phase.ANSWERED
_OVER: Final = Phase.OVER
_COMMIT: Final = Then.COMMIT
_FAILED: Final = Outcome.FAILED


class Attempt(Receiver):
    """See the module; it counts itself in and out of its endpoint.

    ``head``, ``verdict``, ``framing``, ``connection`` and ``held`` are there once it is answered;
    ``held`` is what came before the first byte of the body that counts: framing, and comments.
    """

    __slots__ = (
        "_dialling",
        "_may_ping",
        "_owner",
        "_permit",
        "_request",
        "_reservation",
        "connection",
        "framing",
        "head",
        "held",
        "live",
        "phase",
        "verdict",
    )

    head: ResponseHead
    verdict: Verdict
    framing: Framing | None
    connection: UpstreamConnection
    held: bytes

    def __init__(self, owner: Owner, live: LiveEndpoint, permit: Permit) -> None:
        """``permit`` is what the endpoint's breaker gave."""
        self._owner = owner
        self._permit = permit
        self._dialling: asyncio.Task[None] | None = None
        self.live = live
        self.phase = _NEW

    def start(self, request: bytes) -> None:
        """Send on a connection at hand, else on a fresh one."""
        self._request = request
        live = self.live
        self._reservation = live.seat.take()
        connection = live.pool.take()
        if connection is not None:
            self._send(connection)
        else:
            self._dial()

    @property
    def wants_payload(self) -> bool:
        """See ``upstream.Receiver``."""
        return self._owner.wants_payload

    def abandon(self, ending: Ending | None = None) -> None:
        """End it from outside; only with ``ending`` does the owner hear of it and try on."""
        phase = self.phase
        if phase is _ANSWERED or phase is _OVER:
            return
        if self._dialling is not None:
            self._dialling.cancel()
        if phase is _SENT or phase is _HEAD:
            self.connection.abort()
        if ending is None:
            self._close(Outcome.NEUTRAL)
        else:
            self._fail(ending, ending.value)

    def time_out(self) -> None:
        """The engine took too long over the step it is at."""
        if self.phase is _SENT:
            self.abandon(Ending.HEAD_TIMEOUT)
        elif self.phase is _HEAD:
            self.abandon(Ending.BODY_TIMEOUT)

    def discard(self, *, is_whole: bool) -> None:
        """The owner does not want the answer that it was given."""
        if not is_whole:
            self.connection.abort()
        self._close(Outcome.NEUTRAL)

    def finish(self, *, is_truncated: bool) -> None:
        """The answer was passed on, whole or not."""
        if is_truncated:
            self._close(Outcome.FAILED)
        elif self.phase is _ANSWERED:
            self.phase = _OVER
            self.live.seat.give_back(self._reservation)

    def on_whole(self, head: ResponseHead, body: bytes) -> None:
        """See ``upstream.Receiver``; the most common end of an attempt, so it takes no detour."""
        verdict = VERDICTS.get(head.status, PASS_ON)
        if verdict.then is _COMMIT:
            self.phase = _OVER
            live = self.live
            live.seat.give_back(self._reservation)
            if not live.breaker.is_calm:
                live.learn(verdict.breaker, self._permit)
            self._owner.on_success(head, body)
        else:
            self.head = head
            self.verdict = verdict
            self.framing = None
            self._answer(body, is_whole=True)

    def on_head(self, head: ResponseHead) -> None:
        """See ``upstream.Receiver``."""
        self.phase = _HEAD
        self.held = b""
        self.head = head
        self.verdict = VERDICTS.get(head.status, PASS_ON)
        self.framing = self.connection.framing
        self._may_ping = head.is_events
        self._owner.on_head()
        if self.verdict.then is not _COMMIT:
            # Such an answer does not wait for its body, but takes along what came with the head.
            asyncio.get_running_loop().call_soon(self._answer_without_body)

    def on_body(self, data: bytes) -> None:
        """See ``upstream.Receiver``; neither framing nor a comment is a byte of the body yet."""
        framing = self.framing
        if self.verdict.then is not _COMMIT or framing is None:
            self._answer(data, is_whole=False)
        elif not framing.has_payload or (
            self._may_ping and preamble.is_all(framing, self.held + data)
        ):
            self.held += data
        else:
            self._answer(data, is_whole=False)

    def on_last(self, data: bytes) -> None:
        """See ``upstream.Receiver``."""
        self._answer(data, is_whole=True)

    def on_lost(self, reason: str) -> None:
        """See ``upstream.Receiver``; a kept connection that had gone stale costs no attempt."""
        if self.phase is _HEAD:
            self._fail(Ending.LOST_BEFORE_BODY, reason)
        elif self.connection.is_reused and not self.connection.has_bytes:
            self._dial()
        else:
            self._fail(Ending.LOST_BEFORE_HEAD, reason)

    def on_fault(self, error: Exception) -> None:
        """See ``upstream.BodyReceiver``."""
        self._owner.on_fault(error)

    def _dial(self) -> None:
        self.phase = _DIAL
        self._dialling = self._owner.spawn(self._dial_and_send())

    async def _dial_and_send(self) -> None:
        try:
            connection = await self.live.pool.dial()
        except (Unreachable, Exhausted) as error:
            self._dialling = None
            is_ours = isinstance(error, Exhausted)
            self._fail(Ending.NO_FILES if is_ours else Ending.DIAL_FAILED, error.message)
        except Exception as fault:  # noqa: BLE001 - the client must hear of it
            self._owner.on_fault(fault)
        else:
            self._dialling = None
            self._send(connection)

    def _send(self, connection: UpstreamConnection) -> None:
        self.phase = _SENT
        self.connection = connection
        self._owner.on_sent()
        connection.send(self._request, self)

    def _answer_without_body(self) -> None:
        if self.phase is _HEAD:
            self._answer(b"", is_whole=False)

    def _answer(self, data: bytes, *, is_whole: bool) -> None:
        self.phase = _ANSWERED
        self._request = b""  # it may be large, and a stream long
        if self.head.status == 503:
            self.verdict = judge_loading(self.verdict, status=503, body=data)
        breaker = self.verdict.breaker
        if breaker is _FAILED or not self.live.breaker.is_calm:
            self.live.learn(breaker, self._permit)
            self._permit = Permit.ORDINARY
        self._owner.on_answer(data, is_whole=is_whole)

    def _fail(self, ending: Ending, reason: str) -> None:
        self._close(ENDINGS[ending].breaker)
        self._owner.on_failed(ending, reason)

    def _close(self, outcome: Outcome) -> None:
        if self.phase is not _OVER:
            self.phase = _OVER
            self._request = b""
            self.live.learn(outcome, self._permit)
            self.live.seat.give_back(self._reservation)
