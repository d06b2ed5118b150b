"""One running answer: it waits for a slot and makes its tokens on time.

Called by ``answering``; writes to a ``Reply`` and knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from llmgw.simulator import bodies
from llmgw.simulator.asks import Ask
from llmgw.simulator.schedule import Pace
from llmgw.simulator.state import EngineState

_HALF_TICK_S = 0.0005
"""uvloop rounds to milliseconds: without this a timer fires early and spins until it is due."""


class Reply(Protocol):
    """Where the answer to one request is written."""

    @property
    def is_paused(self) -> bool:
        """The client reads more slowly than we write."""
        ...

    def whole(self, status: int, body: bytes) -> None:
        """Answer with one JSON body."""
        ...

    def open_stream(self) -> None:
        """Answer 200 with server-sent events to follow."""
        ...

    def send(self, events: bytes) -> None:
        """Send events of an open stream."""
        ...

    def end_stream(self) -> None:
        """The stream is complete."""
        ...

    def cut(self) -> None:
        """Close the connection in the middle of the answer."""
        ...


class _Streamed:
    """Delivers every token as it is made."""

    __slots__ = ("_frames", "_reply")

    def __init__(self, ask: Ask, label: bodies.Label, reply: Reply) -> None:
        self._frames = bodies.Frames(ask, label)
        self._reply = reply
        reply.open_stream()

    def wake_at(self, pace: Pace) -> float:
        return pace.next_at

    def deliver(self, *, first: int, n_tokens: int) -> None:
        opening = b"" if first else self._frames.opening()
        self._reply.send(opening + self._frames.tokens(first, n_tokens))

    def finish(self, *, n_tokens: int, finish_reason: str) -> None:
        self._reply.send(self._frames.ending(n_tokens=n_tokens, finish_reason=finish_reason))
        self._reply.end_stream()


class _Whole:
    """Delivers one body after the last token."""

    __slots__ = ("_ask", "_label", "_reply")

    def __init__(self, ask: Ask, label: bodies.Label, reply: Reply) -> None:
        self._ask = ask
        self._label = label
        self._reply = reply

    def wake_at(self, pace: Pace) -> float:
        return pace.last_at

    def deliver(self, *, first: int, n_tokens: int) -> None:
        """Nothing leaves before the end."""

    def finish(self, *, n_tokens: int, finish_reason: str) -> None:
        body = bodies.whole(self._ask, self._label, n_tokens=n_tokens, finish_reason=finish_reason)
        self._reply.whole(200, body)


class Generation:
    """One answer, from its arrival to its last token or to its client's leaving."""

    def __init__(self, *, engine: EngineState, ask: Ask, label: bodies.Label, reply: Reply) -> None:
        """Take the request in; nothing is produced before ``begin``."""
        self._engine = engine
        self._ask = ask
        self._reply = reply
        kind = _Streamed if ask.is_stream else _Whole
        self._delivery = kind(ask, label, reply)
        self._pace: Pace | None = None
        self._finish_reason = "stop"
        self._is_cut = False
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """A slot is free: the prompt counts, and the first token is due after the TTFT."""
        behaviour = self._engine.behaviour
        want, self._finish_reason = self._ask.length(behaviour.tokens)
        if behaviour.cut_after_tokens is not None and behaviour.cut_after_tokens <= want:
            want, self._is_cut = behaviour.cut_after_tokens, True
        first_at = self._engine.loop.time() + behaviour.ttft_ms / 1000.0
        self._pace = Pace(want=want, next_at=first_at, tpot_s=behaviour.tpot_ms / 1000.0)
        self._engine.measures.prompt_tokens += self._ask.prompt_tokens
        self._set_timer()

    @property
    def tokens_held(self) -> int:
        """See ``Runner``."""
        return self._ask.prompt_tokens + (self._pace.made if self._pace else 0)

    def catch_up(self) -> None:
        """See ``Runner``; a streamed answer counts as it delivers."""
        if self._timer and self._pace and not self._ask.is_stream:
            made = self._pace.advance(self._engine.loop.time())
            self._engine.measures.generation_tokens += made

    def hold(self) -> None:
        """See ``Runner``."""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def go_on(self) -> None:
        """See ``Runner``; does nothing while something else still holds this answer."""
        if self._pace and not self._timer and not self._is_over:
            self._pace.resume(self._engine.loop.time())
            self._set_timer()

    def client_left(self) -> None:
        """Free the slot at once and count the abort."""
        if not self._is_over:
            measures = self._engine.measures
            measures.aborted += 1
            measures.aborted_at_s = time.monotonic()
            self._leave()

    def _set_timer(self) -> None:
        if self._pace and not self._reply.is_paused and not self._engine.behaviour.hang:
            at = self._delivery.wake_at(self._pace) + _HALF_TICK_S
            self._timer = self._engine.loop.call_at(at, self._tick, self._pace)

    def _tick(self, pace: Pace) -> None:
        self._timer = None
        first = pace.made
        made = pace.advance(self._engine.loop.time())
        self._engine.measures.generation_tokens += made
        if made:
            self._delivery.deliver(first=first, n_tokens=made)
        if not pace.is_done:
            self._set_timer()
        elif self._is_cut:
            self._leave()
            self._reply.cut()
        else:
            self._complete(pace.made)

    def _complete(self, n_tokens: int) -> None:
        self._engine.measures.finished[self._finish_reason] += 1
        self._leave()
        self._delivery.finish(n_tokens=n_tokens, finish_reason=self._finish_reason)
        self._engine.answered()

    def _leave(self) -> None:
        self._is_over = True
        self.hold()
        self._engine.slots.leave(self)
