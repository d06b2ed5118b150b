"""Speak HTTP/1.1 to an engine over one connection.

``pool`` makes and keeps connections; ``dispatch`` sends one request on one and gets the answer as
calls on its ``Receiver``; after commit ``relaying`` is the receiver.  Nothing here knows of models,
retries or clients.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from llmgw.gateway.framing import Framing, FramingBroken, Surplus
from llmgw.gateway.outgoing import Outgoing, Sender
from llmgw.gateway.responses import HeadBroken, Heads, ResponseHead

_END_OF_HEAD: Final = b"\r\n\r\n"
_MAX_HEAD_BYTES: Final = 65536


class BodyReceiver:
    """Who gets the body of an answer; every call comes from the event loop and none may block."""

    __slots__ = ()

    def on_body(self, data: bytes) -> None:
        """Bytes of the body in their framing; more will follow."""
        raise NotImplementedError

    def on_surplus(self) -> None:
        """The framing begins to hold what clients need not see; said before the bytes come."""

    def on_last(self, data: bytes) -> None:
        """The last bytes of the body, perhaps none; the connection is given back already."""
        raise NotImplementedError

    def on_lost(self, reason: str) -> None:
        """The answer will not be completed; the connection is gone."""
        raise NotImplementedError

    def on_fault(self, error: Exception) -> None:
        """One of these calls failed by a fault of our own; the connection is given up."""
        raise NotImplementedError


class Receiver(BodyReceiver):
    """Who gets an answer from its begin."""

    __slots__ = ()

    @property
    def wants_payload(self) -> bool:
        """Whether the framing has to keep the bare payload of each read."""
        raise NotImplementedError

    def on_whole(self, head: ResponseHead, body: bytes) -> None:
        """A whole answer of announced length that came at once; nothing else is called then."""
        raise NotImplementedError

    def on_head(self, head: ResponseHead) -> None:
        """The final head; interim ones are not shown."""
        raise NotImplementedError


class Keeper:
    """Who keeps connections between requests, and the heads that came on them.

    ``activity`` rises with everything that is read: the endpoint is alive.
    """

    __slots__ = ("activity", "heads", "outgoing")

    def __init__(self, outgoing: Outgoing) -> None:
        self.activity = 0
        self.outgoing = outgoing
        self.heads = Heads()

    def give(self, connection: UpstreamConnection) -> None:
        """Take a connection that may carry another request."""
        raise NotImplementedError

    def forget(self, connection: UpstreamConnection) -> None:
        """A connection is gone."""
        raise NotImplementedError


class UpstreamConnection(Sender):
    """One connection, carrying one request at a time; fits ``asyncio.Protocol``.

    It does not inherit from it: where the gateway is compiled, the fields of such a class would be
    looked up by their names.

    It is given back to its keeper only after a whole answer with nothing behind it, when the engine
    keeps it open, and with its reading resumed.
    """

    __slots__ = (
        "_begun_head",
        "_head_receiver",
        "_interim_bytes",
        "_is_paused",
        "_keeper",
        "_keeps_open",
        "_receiver",
        "framing",
        "has_bytes",
        "idle_since",
        "is_reused",
    )

    def __init__(self, keeper: Keeper) -> None:
        super().__init__(keeper.outgoing)
        self._keeper = keeper
        self._receiver: BodyReceiver | None = None
        self._head_receiver: Receiver | None = None
        self._begun_head = b""
        self._interim_bytes = 0
        self._keeps_open = False
        self._is_paused = False
        self.framing: Framing | None = None
        self.has_bytes = False
        self.is_reused = False
        self.idle_since: float | None = None

    def send(self, request: bytes, receiver: Receiver) -> None:
        """Write one request; its answer goes to ``receiver``."""
        self._receiver = self._head_receiver = receiver
        self.has_bytes = False
        self._interim_bytes = 0
        self.write(request)

    def hand_over(self, receiver: BodyReceiver) -> None:
        """From now on another object receives the body."""
        self._receiver = receiver

    def abort(self) -> None:
        """Give the answer up: the engine sees the connection close at once."""
        self._receiver = self._head_receiver = None  # it refers back to this connection
        super().abort()

    def close(self) -> None:
        """End a connection that carries nothing."""
        self._transport.close()

    def pause_reading(self) -> None:
        """Let the engine wait; its bytes stay in the kernel.

        Once the answer is whole there is nothing to wait for: a kept connection must read on.
        """
        if self._receiver is not None and not self._is_paused and self.is_open():
            self._is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes again."""
        if self._is_paused and self.is_open():
            self._is_paused = False
            self._transport.resume_reading()

    def is_open(self) -> bool:
        """Whether it can still carry a request."""
        return not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected; called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Bytes of an answer; called by the event loop, once a token in a stream."""
        framing, receiver = self.framing, self._receiver
        self._keeper.activity += 1
        try:
            if framing is None:
                self._take_head(data)
                return
            taken = framing.feed(data)
            if framing.is_complete:
                self._finish(data, taken)
            elif receiver is not None:
                receiver.on_body(data)
        except Surplus:
            if receiver is not None:
                receiver.on_surplus()
            self.data_received(data)
        except (FramingBroken, HeadBroken) as error:
            self._fail(str(error))
        except Exception as fault:
            if receiver is None:
                raise
            self._transport.abort()
            receiver.on_fault(fault)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; called by the event loop."""
        self._keeper.forget(self)
        self._unsent = b""
        receiver, self._receiver = self._receiver, None
        self._head_receiver = None
        if receiver is None:
            return
        if exc is None and self.framing is not None and self.framing.ends_at_close():
            receiver.on_last(b"")
        else:
            receiver.on_lost(str(exc) if exc else "the engine closed the connection")

    def eof_received(self) -> None:
        """The engine sends no more: the transport closes itself; called by the event loop."""

    def pause_writing(self) -> None:
        """The engine takes a request slowly, whose length is bounded; called by the event loop."""

    def resume_writing(self) -> None:
        """It has caught up; called by the event loop."""

    def _take_head(self, data: bytes) -> None:
        receiver, self._head_receiver = self._head_receiver, None
        if receiver is None or self._receiver is None:
            self._transport.abort()  # bytes that nobody asked for
            return
        self.has_bytes = True
        if self._begun_head:
            data = self._begun_head + data
            self._begun_head = b""
        while (end := data.find(_END_OF_HEAD)) >= 0:
            end += 4
            head = self._keeper.heads.read(data[:end])
            data = data[end:]
            if head.length_bytes == len(data) and head.status >= 200:
                keeps_open = head.keeps_open and (head.status < 300 or self._is_sent())
                if keeps_open and not self._is_paused:
                    self._receiver = None
                    self._keeper.give(self)
                else:
                    self._release(is_kept=keeps_open)
                receiver.on_whole(head, data)
                return
            if head.status >= 200:
                self._begin_body(receiver, head, data)
                return
            self._interim_bytes += end
            if self._interim_bytes > _MAX_HEAD_BYTES:
                self._fail("the engine sends interim heads without end")
                return
        self._begun_head = data
        self._head_receiver = receiver
        if len(data) > _MAX_HEAD_BYTES:
            self._fail("the head of the answer is too large")

    def _begin_body(self, receiver: Receiver, head: ResponseHead, data: bytes) -> None:
        self.framing = head.framing(keeps_payload=receiver.wants_payload, tells_surplus=True)
        self._keeps_open = head.keeps_open and (head.status < 300 or self._is_sent())
        receiver.on_head(head)
        if data:
            self.data_received(data)

    def _is_sent(self) -> bool:
        """Whether the request is out; who refuses one early may never take the rest of it."""
        return not (self._unsent or self._transport.get_write_buffer_size())

    def _finish(self, data: bytes, taken: int) -> None:
        receiver = self._receiver
        is_clean = taken == len(data)
        self._release(is_kept=self._keeps_open and is_clean and receiver is not None)
        if receiver is not None:
            receiver.on_last(data if is_clean else data[:taken])

    def _release(self, *, is_kept: bool) -> None:
        """The answer is over: keep the connection for another request, or end it."""
        self._receiver = self.framing = None
        if is_kept:
            if self._is_paused:
                self.resume_reading()
            self._keeper.give(self)
        else:
            self._transport.abort()

    def _fail(self, reason: str) -> None:
        receiver, self._receiver = self._receiver, None
        self._head_receiver = None
        self._transport.abort()
        if receiver is not None:
            receiver.on_lost(reason)
