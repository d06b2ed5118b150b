"""A stream that has begun before anybody knows who will answer: comments now, the answer later.

``arrival`` puts an ``EarlyAnswer`` in the place of the client's connection while a model is being
loaded, so that nobody on the way takes the silence for a failure.  Whoever answers afterwards
writes to it as to any client; what is written is put into the stream that the client has, and an
error becomes an event of it, since its status is spent.
"""

from __future__ import annotations

from llmgw.gateway import headers
from llmgw.gateway.chunked_framing import chunk
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.framing import Framing
from llmgw.gateway.ports import Client, Work
from llmgw.gateway.replies import Answer
from llmgw.gateway.responses import ResponseHead

_COMMENT = chunk(b": the model is being loaded\n\n")
_END = b"0\r\n\r\n"
_END_OF_HEAD = b"\r\n\r\n"
_MOST_BODY_BYTES = 65536


class EarlyAnswer:
    """See the module; fits ``ports.Client``."""

    __slots__ = ("_body", "_client", "_framing", "_head", "_is_stream", "_status")

    has_begun = True
    """See ``ports.Client``."""

    def __init__(self, client: Client, exchange: Exchange) -> None:
        """Begin the answer to ``exchange``."""
        self._client = client
        self._head = self._body = b""
        self._framing: Framing | None = None
        self._is_stream = False
        self._status = 0
        client.closes_after(exchange)
        client.write(headers.early_head(exchange))

    def comment(self) -> None:
        """Show that somebody is still at work."""
        self._client.write(_COMMENT)

    # What the work under way asks and tells

    @property
    def peer(self) -> str:
        """See ``ports.Client``."""
        return self._client.peer

    @property
    def is_paused(self) -> bool:
        """See ``ports.Client``."""
        return self._client.is_paused

    @is_paused.setter
    def is_paused(self, is_paused: bool) -> None:
        self._client.is_paused = is_paused

    @property
    def due_at(self) -> float:
        """See ``ports.Client``."""
        return self._client.due_at

    @due_at.setter
    def due_at(self, due_at: float) -> None:
        self._client.due_at = due_at

    @property
    def work(self) -> Work | None:
        """See ``ports.Client``."""
        return self._client.work

    @work.setter
    def work(self, work: Work | None) -> None:
        self._client.work = work

    def write(self, data: bytes) -> None:
        """See ``ports.Client``; what comes is an answer with a head and a framing of its own."""
        if self._framing is None:
            data = self._after_head(data)
        if self._framing is None or not data:
            return
        self._framing.feed(data)
        payload = self._framing.payload(data)
        if self._is_stream:
            self._client.write(chunk(payload))
        else:
            self._body = (self._body + payload)[:_MOST_BODY_BYTES]

    def write_later(self, data: bytes) -> None:
        """See ``ports.Client``."""
        self.write(data)

    def closes_after(self, exchange: Exchange) -> bool:
        """See ``ports.Client``."""
        return self._client.closes_after(exchange)

    def send(self, answer: Answer, exchange: Exchange) -> None:  # noqa: ARG002 - its head is out
        """See ``ports.Client``."""
        self._client.write(chunk(_event(answer.body)))
        self._client.break_off(resets=False)

    def finish(self) -> None:
        """See ``ports.Client``; after an error the stream stays without its end."""
        if not self._is_stream:
            self._client.write(chunk(_event(self._body)))
        if self._status < 300:
            self._client.write(_END)
            self._client.finish()
        else:
            self._client.break_off(resets=False)

    def break_off(self, *, resets: bool) -> None:  # noqa: ARG002 - in chunks an end is missed
        """See ``ports.Client``."""
        self._client.break_off(resets=False)

    def _after_head(self, data: bytes) -> bytes:
        """Take the head of the answer; what came behind it."""
        self._head += data
        end = self._head.find(_END_OF_HEAD)
        if end < 0:
            return b""
        head = ResponseHead(self._head[: end + 4])
        self._status = head.status
        self._is_stream = head.is_events and head.status < 300
        self._framing = head.framing(keeps_payload=True)
        return self._head[end + 4 :]


def _event(body: bytes) -> bytes:
    """A whole body as one event, whatever its lines."""
    return b"".join(b"data: %b\n" % line for line in body.splitlines()) + b"\n"
