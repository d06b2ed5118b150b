"""Write workload events as lines of JSON, for programs that follow what a fleet does.

``server`` makes one where `router.events_file` is set.  The keys are those of the events that
other nodes of this kind exchange; what is unknown has no key.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import orjson

from llmgw.gateway.events import Event, Events
from llmgw.gateway.line_writer import LineWriter
from llmgw.kit import ids
from llmgw.kit.clock import Clock


class EventStream:
    """Events on their way to a file that is appended to; several workers may share it."""

    def __init__(self, path: Path, *, events: Events, origin: str, clock: Clock) -> None:
        """``origin`` names this host."""
        self.events = events
        self._writer = LineWriter(functools.partial(_open, path), name="event-stream", closes=True)
        self._clock = clock
        self._same = {"runId": events.run_id, "originatedFrom": origin}

    @classmethod
    def of_file(cls, path: str, *, clock: Clock) -> EventStream | None:
        """One of a worker that is named by chance; nothing for no path."""
        if not path:
            return None
        events = Events(run_id=ids.token(8))
        return cls(Path(path), events=events, origin=socket.gethostname(), clock=clock)

    @property
    def dropped(self) -> int:
        """Events that were not written."""
        return self.events.dropped + self._writer.dropped_lines

    def start(self) -> None:
        """Begin to listen and to write."""
        self.events.subscribe(self.take)
        self._writer.start()

    def flush(self) -> None:
        """Have all events written that there are."""
        self.events.deliver()

    def take(self, events: Sequence[Event]) -> None:
        """Write these."""
        epoch_at = self._clock.wall() - self._clock.monotonic()
        for event in events:
            self._writer.add(line_of(event, same=self._same, epoch_at=epoch_at))
        self._writer.flush()

    def close(self) -> None:
        """Write what is left, within a bound."""
        self.flush()
        self._writer.close()


def line_of(event: Event, *, same: dict[str, str], epoch_at: float) -> str:
    """One event as a line; ``same`` is what all lines of a worker have."""
    told: dict[str, Any] = {
        "event": event.kind,
        "id": event.request_id,
        "seq": event.seq,
        "state": event.state,
        "model": event.model,
        "engine": event.engine,
        "scheduledOn": event.scheduled_on,
        "createdAt": _at_ms(event.created_at, epoch_at),
        **same,
    }
    if event.started_at and event.kind != "submitted":
        told["startedAt"] = _at_ms(event.started_at, epoch_at)
    if event.is_end:
        told["completedAt"] = _at_ms(event.completed_at, epoch_at)
        if event.error:
            told["error"] = event.error
        if stats := _stats(event):
            told["stats"] = stats
    return orjson.dumps(told).decode() + "\n"


def _stats(event: Event) -> dict[str, Any]:
    """What was measured; only of answers below 400, which alone have a usage."""
    usage = event.usage
    if usage is None:
        return {}
    stats: dict[str, Any] = {
        "promptTokens": usage.prompt_tokens,
        "completionTokens": usage.completion_tokens,
        "ttftMs": round((event.started_at - event.sent_at) * 1000, 3),
    }
    decoding_s = event.completed_at - event.started_at
    if usage.completion_tokens > 1 and decoding_s > 0:
        stats["tokensPerSecond"] = round((usage.completion_tokens - 1) / decoding_s, 3)
    if usage.is_estimated:
        stats["estimated"] = True
    if event.truncated:
        stats["truncated"] = True
    return stats


def _at_ms(at: float, epoch_at: float) -> int:
    return int((at + epoch_at) * 1000)


def _open(path: Path) -> IO[str]:
    return path.open("a", encoding="utf-8")
