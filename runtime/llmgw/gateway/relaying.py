"""Pass an engine's answer on to the client, byte for byte, once it is committed.

``dispatch`` makes one ``Relay`` an answer and hands the engine's connection over to it.  A chunk
costs two calls and one write; no task, no queue, no timer.  A stream that breaks off is told to the
client by one event of ours and a broken connection; nothing that the engine did not say is
invented, least of all an end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from llmgw.gateway.framing import Framing
from llmgw.gateway.ports import Client
from llmgw.gateway.replies import Code, truncation_event
from llmgw.gateway.upstream import UpstreamConnection
from llmgw.kit import logs

_log = logs.get(__name__)

_TAIL_BYTES = 1024
_END_OF_ONE = b"\n\n\r\n"
_AFTER_SIZE = 6
"""Where the size line of a chunk has ended; no event is so short."""

_CHUNK_BORDER = re.compile(rb"\r\n[0-9a-fA-F]+\r\n")
_OWN_END = re.compile(rb'(?:\A|\n)data: ?\[DONE\]|"finish_reason": ?"')


@dataclass(frozen=True, slots=True)
class Manner:
    """How one answer has to be passed on."""

    request_id: str
    is_events: bool  # a stream of events, which must say that it is complete
    is_bare: bool  # the client gets the payload without the engine's framing


class Relay:
    """One answer under way to one client; receives what the engine's connection reads."""

    __slots__ = (
        "_client",
        "_connection",
        "_framing",
        "_is_events",
        "_manner",
        "_on_end",
        "_tail",
        "_tail_before",
        "_write",
        "events",
    )

    def __init__(
        self,
        client: Client,
        *,
        connection: UpstreamConnection,
        framing: Framing,
        manner: Manner,
        on_end: Callable[[bool], None],
    ) -> None:
        """``on_end`` is called once, before the client's connection goes on, with: is truncated."""
        self._client = client
        self._connection = connection
        self._framing = framing
        self._manner = manner
        self._is_events = manner.is_events
        self._on_end = on_end
        self._write = self._write_bare if manner.is_bare else client.write
        self._tail = self._tail_before = b""
        self.events = 0

    def begin(self, head: bytes, data: bytes) -> None:
        """Write the head with the first bytes of the body; more will follow."""
        self._connection.hand_over(self)
        self._client.write(head + self._as_sent(data))
        if self._is_events:
            self._follow(data)
        if self._client.is_paused:
            self._connection.pause_reading()

    def begin_with_last(self, head: bytes, data: bytes) -> None:
        """Write an answer that is whole already."""
        if self._is_events:
            self._client.write(head)
            self.on_last(data)
        else:
            self._client.write(head + self._as_sent(data))
            self._end()

    def on_body(self, data: bytes) -> None:
        """See ``upstream.BodyReceiver``; once a token."""
        self._write(data)
        if self._is_events:
            self._follow(data)

    def on_last(self, data: bytes) -> None:
        """See ``upstream.BodyReceiver``."""
        if self._is_events:
            self._follow(data)
            if not self._has_said_end():
                self._break(self._in_place_of_end(data))
                return
        if data:
            self._write(data)
        self._end()

    def on_lost(self, reason: str) -> None:  # noqa: ARG002 - one word for all reasons
        """See ``upstream.BodyReceiver``: the answer broke off."""
        self.cut()

    def on_fault(self, error: Exception) -> None:
        """See ``upstream.BodyReceiver``."""
        _log.error("relay_failed", request_id=self._manner.request_id, exc=error)
        self.cut()

    def cut(self, code: Code = Code.STREAM_TRUNCATED) -> None:
        """Break the answer off so that the client knows, and knows by whom."""
        self._connection.abort()
        event = truncation_event(self._manner.request_id, code) if self._is_events else b""
        self._break(event if self._manner.is_bare or not event else self._framing.after_cut(event))

    def stop(self) -> None:
        """The client is gone: the engine learns it at once."""
        self._connection.abort()

    def pause(self) -> None:
        """The client takes no more for now."""
        self._connection.pause_reading()

    def resume(self) -> None:
        """The client takes bytes again."""
        self._connection.resume_reading()

    def _follow(self, data: bytes) -> None:
        """Count events and keep the end of the stream, at least ``_TAIL_BYTES`` of it."""
        tail = self._tail
        if data.endswith(_END_OF_ONE) and data.find(b"\n", _AFTER_SIZE) == len(data) - 4:
            self.events += 1  # one event in one chunk, as most reads are: cheaper than to count
        else:
            self.events += data.count(b"\n\n")
            if data[:1] == b"\n" and tail[-1:] == b"\n":
                self.events += 1
        if len(tail) > _TAIL_BYTES:
            self._tail_before, self._tail = tail, data
        else:
            self._tail = tail + data

    def _has_said_end(self) -> bool:
        """Whether the stream ended by its own word: ``[DONE]`` or a reason why it finished."""
        tail = _CHUNK_BORDER.sub(b"", self._tail_before + self._tail)
        return _OWN_END.search(tail) is not None

    def _event(self) -> bytes:
        return truncation_event(self._manner.request_id)

    def _in_place_of_end(self, data: bytes) -> bytes:
        if self._manner.is_bare:
            return self._framing.payload(data) + self._event()
        return self._framing.in_place_of_end(data, self._event())

    def _as_sent(self, data: bytes) -> bytes:
        return self._framing.payload(data) if self._manner.is_bare else data

    def _write_bare(self, data: bytes) -> None:
        self._client.write(self._framing.payload(data))

    def _break(self, last_words: bytes) -> None:
        if last_words:
            self._client.write(last_words)
        self._on_end(True)
        ends_at_close = self._manner.is_bare or self._framing.ends_at_close()
        self._client.break_off(resets=ends_at_close)

    def _end(self) -> None:
        self._on_end(False)
        self._client.finish()
