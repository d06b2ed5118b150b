"""Tell what becomes of each request while it happens: the workload events of one worker.

``books`` reports each step where somebody listens; ``server`` has them delivered a few times a
second.  The bound never holds a request up: of events that nobody took in time the oldest are
dropped and counted, those of ends last, since they are what consumers must not miss.

Everything before commit is ``queued``: consumers merge by rank (queued, running, ended) and would
reject a step back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from llmgw.gateway.exchange import Exchange, State
from llmgw.gateway.usage import Usage

MOST_WAITING = 8192

_ENDS = ("completed", "errored")

Listener = Callable[[Sequence["Event"]], None]


class Event(msgspec.Struct, frozen=True, gc=False):
    """One step of one request; times are monotonic seconds, 0 where the thing did not happen.

    ``seq`` rises strictly within one worker, whose name is ``run_id``; ``scheduled_on`` is the
    endpoint, empty while the request is not placed.
    """

    kind: str
    state: str
    seq: int
    request_id: str
    model: str
    engine: str = ""
    scheduled_on: str = ""
    created_at: float = 0.0
    sent_at: float = 0.0
    started_at: float = 0.0
    completed_at: float = 0.0
    error: str = ""
    usage: Usage | None = None
    truncated: str = ""

    @property
    def is_end(self) -> bool:
        """Whether nothing comes after it."""
        return self.kind in _ENDS


class Events:
    """The events that nobody has taken yet, and who takes them."""

    def __init__(self, *, run_id: str, most_waiting: int = MOST_WAITING) -> None:
        self.run_id = run_id
        self.dropped = 0
        self._most_waiting = most_waiting
        self._waiting: deque[Event] = deque()
        self._listeners: list[Listener] = []
        self._seq = 0

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Give each batch of events to ``listener``, in order; the result ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def submitted(self, exchange: Exchange, *, scheduled_on: str = "") -> None:
        """It was let in, is sent to an endpoint, or is placed nowhere between two attempts."""
        self._add(exchange, "submitted", "queued", scheduled_on)

    def started(self, exchange: Exchange) -> None:
        """An engine's answer has begun and is its answer."""
        self._add(exchange, "started", "running", exchange.endpoint_id)

    def ended(self, exchange: Exchange) -> None:
        """It is over."""
        kind = "completed" if exchange.state is State.COMPLETED else "errored"
        self._add(exchange, kind, exchange.state.value, exchange.endpoint_id)

    def deliver(self) -> None:
        """Give what there is to all listeners; a failing one is the caller's to guard."""
        if not self._waiting:
            return
        batch = tuple(self._waiting)
        self._waiting.clear()
        for listener in tuple(self._listeners):
            listener(batch)

    def _add(self, exchange: Exchange, kind: str, state: str, scheduled_on: str) -> None:
        self._seq += 1
        self._waiting.append(
            Event(
                kind=kind,
                state=state,
                seq=self._seq,
                request_id=exchange.request_id,
                model=exchange.model_name,
                engine=exchange.engine if scheduled_on else "",
                scheduled_on=scheduled_on,
                created_at=exchange.started_at,
                sent_at=exchange.sent_at,
                started_at=exchange.first_byte_at,
                completed_at=exchange.ended_at,
                error=exchange.code or "",
                usage=exchange.usage,
                truncated=exchange.cut or "",
            )
        )
        if len(self._waiting) > self._most_waiting:
            self._make_room()

    def _make_room(self) -> None:
        """Drop the older half's steps, or the oldest ends where there are nothing but ends."""
        waiting = list(self._waiting)
        half = len(waiting) // 2
        kept = [event for event in waiting[:half] if event.is_end]
        if len(kept) == half:
            kept = kept[len(kept) // 2 :]
        self.dropped += half - len(kept)
        self._waiting = deque([*kept, *waiting[half:]])
