"""Pass an engine's answer on to the client once it is committed.

``dispatch`` makes one ``Relay`` an answer and hands the engine's connection over to it.  A chunk
costs two calls and one write; no task, no queue, no timer.  A stream that breaks off is told to the
client by one event of ours and a broken connection; nothing that the engine did not say is
invented, least of all an end.  On the way the relay keeps the little that tells how the answer
ended and what it cost.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from llmgw.gateway import usage
from llmgw.gateway.exchange import Cut, Exchange
from llmgw.gateway.framing import Framing
from llmgw.gateway.passage import AsItCame, Bare, Passage, WithoutUsage
from llmgw.gateway.ports import Client
from llmgw.gateway.replies import Code, truncation_event
from llmgw.gateway.upstream import BodyReceiver, UpstreamConnection
from llmgw.gateway.usage import Usage
from llmgw.kit import logs

_log = logs.get(__name__)

_TAIL_BYTES: Final = 2048
_TAIL_WITHOUT_USAGE_BYTES: Final = 1024
"""Where usage is read elsewhere, the end of a stream says only that it is one."""

_SMALL_BYTES: Final = 64
_JOINED_BYTES: Final = 256
"""Short pieces of the tail are joined up to so many: many would weigh more than what they say."""

_END_OF_ONE: Final = b"\n\n\r\n"
_AFTER_SIZE: Final = 6
"""Where the size line of a chunk has ended; no event is so short."""

_CHUNK_BORDER: Final = re.compile(rb"\r\n[0-9a-fA-F]+\r\n")
_OWN_END: Final = re.compile(rb'(?:\A|\n)data: ?\[DONE\]|"finish_reason": ?"')
_DONE: Final = re.compile(rb"(?:\A|\n)data: ?\[DONE\]")
_MOST_COMMENTS: Final = 16


@dataclass(frozen=True, slots=True)
class Manner:
    """How one answer has to be passed on."""

    request_id: str
    is_events: bool  # a stream of events, which must say that it is complete
    is_bare: bool  # the client gets the payload without the engine's framing
    hides_usage: bool = False  # the chunk that tells the usage is taken out

    @classmethod
    def of(cls, exchange: Exchange, *, is_events: bool) -> Manner:
        """How the answer to ``exchange`` goes on, which begins with a stream of events or not."""
        is_told = is_events and exchange.status < 300
        return cls(
            request_id=exchange.request_id,
            is_events=is_told,
            is_bare=exchange.is_http10,
            hides_usage=exchange.is_usage_hidden and is_told,
        )


class Relay(BodyReceiver):
    """One answer under way to one client; receives what the engine's connection reads."""

    __slots__ = (
        "_begin",
        "_client",
        "_connection",
        "_is_events",
        "_is_raw",
        "_least_tail_bytes",
        "_manner",
        "_on_end",
        "_passage",
        "_tail",
        "_tail_bytes",
        "body_bytes",
        "events",
    )

    def __init__(
        self,
        client: Client,
        *,
        connection: UpstreamConnection,
        framing: Framing,
        manner: Manner,
        on_end: Callable[[Cut | None], None],
    ) -> None:
        """``on_end`` is called once, before the client's connection goes on, with what cut it."""
        self._client = client
        self._connection = connection
        self._manner = manner
        self._is_events = manner.is_events
        self._on_end = on_end
        self._passage = passage = _passage(framing, manner)
        self._is_raw = type(passage) is AsItCame and not framing.has_surplus
        self._begin = b""
        self._tail = [b""]  # what came last
        self._tail_bytes = 0
        self._least_tail_bytes = _tail_bytes_of(manner)  # what is more than needed for so many goes
        self.events = 0
        self.body_bytes = 0  # framing included

    def with_held(self, head: bytes, data: bytes) -> bytes:
        """The head with what came before the first bytes of the body, as the client gets it."""
        return head + self._passage.held(data)

    def begin(self, head: bytes, data: bytes) -> None:
        """Write the head with the first bytes of the body; more will follow."""
        self._connection.hand_over(self)
        self._client.write(head + self._passage.body(data))
        self._keep(data)
        if self._client.is_paused:
            self._connection.pause_reading()

    def begin_with_last(self, head: bytes, data: bytes) -> None:
        """Write an answer that is whole already."""
        if self._is_events:
            self._client.write(head)
            self.on_last(data)
        else:
            self._keep(data)
            self._client.write(head + self._passage.last(data))
            self._end()

    def on_body(self, data: bytes) -> None:
        """See ``upstream.BodyReceiver``; once a token."""
        if self._is_raw:
            self._client.write_later(data)
        elif passed := self._passage.body(data):
            self._client.write_later(passed)
        if self._is_events:
            self._follow(data)
        else:
            self._keep(data)

    def on_surplus(self) -> None:
        """See ``upstream.BodyReceiver``: from now on it does not go on as it comes."""
        self._is_raw = False

    def on_last(self, data: bytes) -> None:
        """See ``upstream.BodyReceiver``."""
        self._keep(data)
        if self._is_events and not self._has_said_end():
            event = truncation_event(self._manner.request_id)
            self._break(self._passage.in_place_of_end(data, event), Cut.NO_END)
            return
        if passed := self._passage.last(data):
            self._client.write_later(passed)
        self._end()

    def on_lost(self, reason: str) -> None:  # noqa: ARG002 - one word for all reasons
        """See ``upstream.BodyReceiver``: the answer broke off."""
        self.cut(Cut.LOST)

    def on_fault(self, error: Exception) -> None:
        """See ``upstream.BodyReceiver``."""
        _log.error("relay_failed", request_id=self._manner.request_id, exc=error)
        self.cut(Cut.FAULT)

    def cut(self, cut: Cut) -> None:
        """Break the answer off so that the client knows, and knows by whom."""
        self._connection.abort()
        code = Code.SHUTTING_DOWN if cut is Cut.STOPPING else Code.STREAM_TRUNCATED
        event = truncation_event(self._manner.request_id, code) if self._is_events else b""
        self._break(self._passage.after_cut(event) if event else b"", cut)

    def stop(self) -> None:
        """The client is gone: the engine learns it at once."""
        self._connection.abort()

    def pause(self) -> None:
        """The client takes no more for now."""
        self._connection.pause_reading()

    def resume(self) -> None:
        """The client takes bytes again."""
        self._connection.resume_reading()

    # What is known of it

    @property
    def lacks_done(self) -> bool:
        """Whether a stream of events came without ``[DONE]``."""
        return self._is_events and _DONE.search(self._end_of_text()) is None

    @property
    def mark(self) -> int:
        """Another number whenever bytes have come."""
        return self.body_bytes

    def has_brought(self, *, mark: int, events: int) -> bool:
        """Whether anything but comments came since ``mark`` and ``events`` were as given."""
        if self.body_bytes == mark:
            return False
        count = self.events - events
        if not self._is_events or count > _MOST_COMMENTS:
            return True
        *frames, begun = self._end_of_text().split(b"\n\n")
        came = [frame.strip() for frame in (*frames[len(frames) - count :], begun)]
        return any(frame and not frame.startswith(b":") for frame in came)

    def usage(self, *, request_bytes: int) -> Usage:
        """What the answer cost, as its engine says, else estimated."""
        said = self._passage.usage or usage.in_text(self._end_of_text())
        if said is not None:
            return said
        if self._is_events:
            frames, is_whole = self.events, self._has_said_end()
            return usage.estimate(request_bytes=request_bytes, frames=frames, is_whole=is_whole)
        said = usage.in_text(self._begin)
        return said or usage.estimate_body(request_bytes=request_bytes, body_bytes=self.body_bytes)

    def _keep(self, data: bytes) -> None:
        """Keep of an answer what tells its cost; no more of it whatever its size."""
        if self._is_events:
            self._follow(data)
            return
        if not self.body_bytes:
            self._begin = data[: usage.HEAD_BYTES]
        self._remember(data)

    def _follow(self, data: bytes) -> None:
        """Count events and keep the end of the stream."""
        if data.endswith(_END_OF_ONE) and data.find(b"\n", _AFTER_SIZE) == len(data) - 4:
            self.events += 1  # one event in one chunk, as most reads are: cheaper than to count
        else:
            self.events += data.count(b"\n\n")
            if data[:1] == b"\n" and self._tail[-1].endswith(b"\n"):
                self.events += 1
        self._remember(data)

    def _remember(self, data: bytes) -> None:
        """Keep it at the end of the tail; pieces are not copied while they are as they came."""
        tail, least_bytes = self._tail, self._least_tail_bytes
        self.body_bytes += len(data)
        if len(data) > least_bytes:
            data = data[-least_bytes:]
        if len(data) < _SMALL_BYTES and len(tail[-1]) < _JOINED_BYTES:
            tail[-1] += data
        else:
            tail.append(data)
        self._tail_bytes += len(data)
        while self._tail_bytes - len(tail[0]) >= least_bytes:
            self._tail_bytes -= len(tail.pop(0))

    def _has_said_end(self) -> bool:
        """Whether the stream ended by its own word: ``[DONE]`` or a reason why it finished."""
        return _OWN_END.search(self._end_of_text()) is not None

    def _end_of_text(self) -> bytes:
        """The end of the payload, without the borders of chunks."""
        return _CHUNK_BORDER.sub(b"", b"\r\n" + b"".join(self._tail))

    def _break(self, last_words: bytes, cut: Cut) -> None:
        if last_words:
            self._client.write(last_words)
        self._on_end(cut)
        self._client.break_off(resets=self._passage.ends_at_close)

    def _end(self) -> None:
        self._on_end(None)
        self._client.finish()


def _tail_bytes_of(manner: Manner) -> int:
    """How much of the end of an answer is kept."""
    if not manner.is_events:
        return usage.TAIL_BYTES
    return _TAIL_WITHOUT_USAGE_BYTES if manner.hides_usage else _TAIL_BYTES


def _passage(framing: Framing, manner: Manner) -> Passage:
    if manner.hides_usage:
        return WithoutUsage(framing, is_bare=manner.is_bare)
    return Bare(framing) if manner.is_bare else AsItCame(framing)
