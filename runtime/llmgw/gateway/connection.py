"""Carry requests and answers of one client.

``server`` makes one ``ClientConnection`` an accepted connection.  It gives each whole request to
the ``Service`` and is the ``Client`` on which the answer goes back; it tells the work under way
what the client does.  It knows nothing of models or engines.

While an answer is under way nothing more is parsed: what a client sends ahead is kept up to a bound
and reading then pauses.  A request that cannot be read is answered and ends the connection.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final, cast

from llmgw.gateway import headers
from llmgw.gateway.exchange import Exchange, State
from llmgw.gateway.hangup import Hangup
from llmgw.gateway.outgoing import Sender
from llmgw.gateway.ports import NEVER, Work
from llmgw.gateway.reception import Reception
from llmgw.gateway.replies import Answer, Code, Refusal
from llmgw.gateway.request_reader import RequestReader
from llmgw.kit import logs

_log = logs.get(__name__)

_IDLE_S: Final = 75.0
_LINGER_S: Final = 2.0
_AHEAD_BYTES: Final = 65536
_READ_BYTES: Final = 256_000
"""The most that uvloop takes from a socket at once, and so what may come after a pause."""
_MOST_AHEAD: Final = 32
_SLICE_BYTES: Final = 16_384
"""So much is parsed before it is looked at how many requests that gave: it may be hundreds."""

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class ClientConnection(Sender):
    """See the module; fits ``ports.Client``, and ``asyncio.Protocol`` as ``upstream`` does."""

    __slots__ = (
        "_ahead",
        "_exchange",
        "_hangup",
        "_has_eof",
        "_is_busy",
        "_is_deaf",
        "_reader",
        "_reception",
        "_stalled_at",
        "_stalled_bytes",
        "due_at",
        "is_paused",
        "work",
    )

    has_begun = False
    """See ``ports.Client``."""

    def __init__(self, reception: Reception) -> None:
        super().__init__(reception.outgoing)
        self._reception = reception
        self._reader = RequestReader(
            limits=reception.limits, budget=reception.budget, now=reception.clock.monotonic
        )
        self._exchange: Exchange | None = None  # the one that is being answered
        self.work: Work | None = None
        self._hangup: Hangup | None = None
        self._ahead = b""
        self._has_eof = False
        self._is_deaf = False  # nothing more is read
        self._stalled_at = 0.0
        self._stalled_bytes = 0
        self.due_at = NEVER
        self.is_paused = False

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepted."""
        self._transport = transport = cast("asyncio.Transport", transport)
        most_bytes = max(self._reception.stream.buffer_bytes - _READ_BYTES, 0)
        transport.set_write_buffer_limits(high=most_bytes, low=most_bytes // 4)
        self._be_due_in(_IDLE_S)
        if not self._reception.enter(self, transport):
            self._turn_away()

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        if self._is_deaf:
            return
        if self._exchange is None and not self._ahead and not self.is_paused:
            self._read(data)
            self._serve_complete()
            return
        self._ahead += data
        if len(self._ahead) > _AHEAD_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """The client sends no more: it left, or it waits for its answer with one side closed."""
        self._has_eof = True
        self.send_off()  # the transport may close itself now, or be asked for more
        if self._is_deaf:
            return False
        if self._exchange is None:
            return self._has_more()
        if self.work is None or self.work.has_begun_answer:
            self._transport.abort()
        elif not self._exchange.is_http10:  # which knows no interim answers, so nothing can ask it
            self._hangup = Hangup(
                self._transport, on_gone=self._transport.abort, is_awaited=self._awaits_answer
            )
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - any reason is one
        """The client is gone."""
        self._reception.leave(self)
        self._is_deaf = True
        self._unsent = b""
        work = self.work
        self._forget_exchange()
        self._reader.close()
        if work is not None:
            work.on_client_gone()

    def pause_writing(self) -> None:
        """The client takes bytes more slowly than they come."""
        self.is_paused = True
        self._stalled_at = self._reception.looked_at
        self._stalled_bytes = self._transport.get_write_buffer_size()
        if self.work is not None:
            self.work.on_paused()

    def resume_writing(self) -> None:
        """It has caught up."""
        self.is_paused = False
        if self.work is not None:
            self.work.on_resumed()
        elif self._exchange is None and not self._is_deaf and self._has_more():
            asyncio.get_running_loop().call_soon(self._go_on)

    # What the work under way calls

    @property
    def peer(self) -> str:
        """See ``ports.Client``."""
        address = self._transport.get_extra_info("peername")
        return str(address[0]) if isinstance(address, tuple) else ""

    def closes_after(self, exchange: Exchange) -> bool:
        """See ``ports.Client``."""
        exchange.closes = (
            not exchange.keeps_open
            or self._reception.is_draining
            or (self._has_eof and not self._ahead and not self._reader.complete)
        )
        return exchange.closes

    def send(self, answer: Answer, exchange: Exchange) -> None:
        """See ``ports.Client``."""
        self.closes_after(exchange)
        self.write(headers.own_answer(answer, exchange))
        self.finish()

    def finish(self) -> None:
        """See ``ports.Client``."""
        exchange = self._exchange
        self._exchange = self.work = None
        if self._hangup is not None:
            self._forget_exchange()
        if exchange is None or exchange.closes:
            self._shut()
            return
        self.due_at = self._reception.looked_at + _IDLE_S
        reader = self._reader
        if self._ahead or reader.complete or reader.refusal or reader.begun or self._has_eof:
            asyncio.get_running_loop().call_soon(self._go_on)
        elif self._reception.is_draining:
            self._shut()  # the answer began before and did not say so

    def break_off(self, *, resets: bool) -> None:
        """See ``ports.Client``."""
        self._forget_exchange()
        if resets:
            self._reset_on_close()
        self._shut()

    # What the server calls

    def look(self, now: float) -> None:
        """Do what is due; called a few times a second."""
        if self.is_paused and self._has_stalled(now):
            self._give_up()
        elif self.due_at <= now:
            self.due_at = NEVER
            self._overdue()

    @property
    def holds_large_head(self) -> bool:
        """See ``crowding.Guest``."""
        return self._reader.holds_large_head

    @property
    def idle_since(self) -> float | None:
        """See ``crowding.Guest``."""
        if self._exchange is not None or self._reader.begun is not None or self._is_deaf:
            return None
        return self.due_at - _IDLE_S

    def leave_if_idle(self) -> None:
        """Close if no request is being read or answered."""
        if self.idle_since is not None:
            self._shut()

    def cancel(self) -> None:
        """End whatever is under way, now."""
        if self.work is not None:
            self.work.cancel()
        else:
            self._transport.abort()

    @property
    def untaken_bytes(self) -> int:
        """Bytes of answers that the client has not taken yet."""
        return self._transport.get_write_buffer_size()

    def on_routes_changed(self) -> None:
        """Tell the work under way that a new table was taken over."""
        if self.work is not None:
            self.work.on_routes_changed()

    def _turn_away(self) -> None:
        """There are too many: say so, which is counted; of each the log has no line."""
        exchange = Exchange(self._reception.budget, self._reception.clock.monotonic())
        exchange.is_probe = True
        self._answer_refusal(Refusal(Code.TOO_MANY_CONNECTIONS, retry_after_s=1), exchange)
        if not self._reception.crowd.may_linger(self):
            self._shut()

    def _read(self, data: bytes) -> None:
        """Parse it, as long as not too many requests are ahead; the rest waits for its turn."""
        reader = self._reader
        if len(data) <= _SLICE_BYTES:
            reader.feed(data)
            return
        start = 0
        while start < len(data) and reader.refusal is None and len(reader.complete) < _MOST_AHEAD:
            reader.feed(data[start : start + _SLICE_BYTES])
            start += _SLICE_BYTES
        self._ahead = data[start:] if reader.refusal is None else b""
        if len(self._ahead) > _AHEAD_BYTES:
            self._transport.pause_reading()

    def _has_more(self) -> bool:
        """Whether requests were sent ahead that nobody has looked at yet."""
        return bool(self._ahead or self._reader.complete)

    def _serve_complete(self) -> None:
        """Serve what has come whole, as long as each answer is given at once and taken."""
        reader = self._reader
        while reader.complete and self._exchange is None and not (self.is_paused or self._is_deaf):
            self._exchange = exchange = reader.complete.pop(0)
            self.due_at = NEVER
            try:
                self._reception.service.serve(self, exchange)
            except Exception as error:  # noqa: BLE001 - the outermost edge of a request
                self._crash(exchange, error)
        if self._exchange is not None or self._is_deaf or self._has_more():
            return
        if reader.begun or reader.refusal:
            self._wait_for_rest()

    def _crash(self, exchange: Exchange, error: Exception) -> None:
        if self.work is not None:
            self.work.on_fault(error)
        elif self._exchange is exchange:
            _log.error("request_failed", request_id=exchange.request_id, exc=error)
            self._answer_refusal(Refusal(Code.INTERNAL), exchange)

    def _wait_for_rest(self) -> None:
        """A request has begun and not yet come whole, or never will."""
        reader = self._reader
        if reader.refusal is not None:
            unread = Exchange(self._reception.budget, self._reception.clock.monotonic())
            self._answer_refusal(reader.refusal, reader.begun or unread)
        elif reader.begun is not None:
            if reader.holds_large_head and not self._reception.crowd.may_hold_head(self):
                self._answer_refusal(Refusal(Code.MEMORY_PRESSURE, retry_after_s=1), reader.begun)
                return
            self.due_at = reader.begun.started_at + self._reception.limits.body_timeout_s
            if reader.wants_continue:
                reader.wants_continue = False
                self.write(headers.CONTINUE)

    def _go_on(self) -> None:
        """After an answer: turn to what was sent ahead, or to the end of it."""
        if self.is_paused or self._transport.is_closing():  # perhaps gone since this was put off
            return
        if self._ahead and self._exchange is None and not self._reader.complete:
            data, self._ahead = self._ahead, b""
            if len(data) > _AHEAD_BYTES:
                self._transport.resume_reading()
            if self._reader.refusal is None:
                self._read(data)
        if self._reader.begun is not None:
            # Only now its client can go on, so only now its time begins.
            self._reader.begun.started_at = self._reception.clock.monotonic()
        self._serve_complete()
        if self._has_eof and self._exchange is None and not (self._is_deaf or self._has_more()):
            self._shut()

    def _answer_refusal(self, refusal: Refusal, exchange: Exchange) -> None:
        """Answer what cannot be served and end the connection, politely."""
        if not exchange.request_id:
            exchange.identify(self._reception.new_id)
        exchange.status, exchange.code, exchange.state = refusal.status, refusal.code, State.FAILED
        exchange.ended_at = self._reception.clock.monotonic()
        exchange.forget_content()
        self._reception.meter.record(exchange)
        exchange.closes = True
        self.write(headers.own_answer(refusal.answer(exchange.request_id), exchange))
        self._forget_exchange()
        self._linger()

    def _linger(self) -> None:
        """Let the client read the answer: closing on unread bytes would reset the connection."""
        if self._has_eof:
            self._shut()
            return
        self._is_deaf = True
        self.send_off()
        self._transport.write_eof()
        self._be_due_in(_LINGER_S)

    def _shut(self) -> None:
        """Close once everything is written; ``look`` ends it if that never happens."""
        self._is_deaf = True
        self.send_off()
        self._transport.close()
        self._be_due_in(self._reception.stream.write_timeout_s)

    def _reset_on_close(self) -> None:
        client: socket.socket = self._transport.get_extra_info("socket")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    def _give_up(self) -> None:
        """End it; what a client did not take is not left to the kernel, which would keep it."""
        if self._transport.get_write_buffer_size():
            self._reset_on_close()
        self._transport.abort()

    def _overdue(self) -> None:
        if self._is_deaf:
            self._give_up()
        elif self.work is not None:
            self.work.on_overdue()
        elif self._reader.begun is not None:
            self._answer_refusal(Refusal(Code.BODY_TIMEOUT), self._reader.begun)
        else:
            self._shut()

    def _has_stalled(self, now: float) -> bool:
        """Whether the client took no byte for too long; a byte taken starts the time anew."""
        left_bytes = self._transport.get_write_buffer_size()
        if left_bytes < self._stalled_bytes:
            self._stalled_at = now
        self._stalled_bytes = left_bytes
        return now - self._stalled_at >= self._reception.stream.write_timeout_s

    def _awaits_answer(self) -> bool:
        return self.work is not None and not self.work.has_begun_answer

    def _forget_exchange(self) -> None:
        self._exchange = None
        self.work = None
        if self._hangup is not None:
            self._hangup.stop()
            self._hangup = None

    def _be_due_in(self, wait_s: float) -> None:
        self.due_at = self._reception.looked_at + wait_s
