"""Pass a request for a page on to the control plane of this host, and its answer back.

``pipeline`` begins a ``HouseCall`` for the paths of ``house_paths``.  The control plane believes
who a client is and where it comes from, so of what a client sends only the fields in ``_PASSED``
go along, and both words are added here.  It may be away: then there is a 503 within a second, and
models are served on.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from llmgw.gateway import house_answers, house_paths
from llmgw.gateway.exchange import Exchange, State
from llmgw.gateway.house_answers import HouseAnswer, HouseBroken
from llmgw.gateway.ports import Client
from llmgw.gateway.replies import Answer, Code, Refusal
from llmgw.kit import logs
from llmgw.kit.tasks import Tasks

MOST_BODY_BYTES: Final = 64 * 1024
"""Forms are small."""

_PASSED: Final = (
    b"host",
    b"accept",
    b"accept-language",
    b"content-type",
    b"cookie",
    b"origin",
    b"sec-fetch-site",
    b"user-agent",
)
_DIAL_S: Final = 0.8
_HEAD_S: Final = 15.0
_SILENCE_S: Final = 60.0
_PIECE_BYTES: Final = 65536
_FULL: Final = "Too many ask for pages at this moment; try again soon."
_TARGET: Final = re.compile(rb"[!-~]*")

_log = logs.get(__name__)

Finish: TypeAlias = Callable[[Client, Exchange, Answer | Refusal], None]
"""Closes the account and answers."""

Leave: TypeAlias = Callable[[Exchange], None]
"""Closes the account of a request that has ended otherwise."""


class House:
    """Where the control plane of this host answers, and how many ask it now."""

    def __init__(self, socket: Path, *, most_calls: int = 256) -> None:
        """``most_calls`` may be under way at once; others are told to come back."""
        self.socket = socket
        self.calls = 0
        self._most_calls = most_calls

    @property
    def is_full(self) -> bool:
        """Whether nobody more is let through."""
        return self.calls >= self._most_calls

    def call(
        self, client: Client, exchange: Exchange, *, finish: Finish, leave: Leave
    ) -> HouseCall:
        """A call that has not started; see ``HouseCall``."""
        return HouseCall(client, exchange, house=self, finish=finish, leave=leave)


class HouseCall:
    """One request passed on; fits ``ports.Work``."""

    def __init__(
        self, client: Client, exchange: Exchange, *, house: House, finish: Finish, leave: Leave
    ) -> None:
        """``finish`` answers where the control plane does not, ``leave`` where it has begun to."""
        self.has_begun_answer = False
        self._client = client
        self._exchange = exchange
        self._house = house
        self._request = _request(exchange, peer=client.peer)
        exchange.path = house_paths.told(exchange.path)
        self._finish = finish
        self._leave = leave
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._task: asyncio.Task[None] | None = None

    def start(self, *, tasks: Tasks) -> None:
        """Pass it on; from here on the client's connection talks to this object."""
        if self._exchange.body_bytes > MOST_BODY_BYTES:
            self._finish(self._client, self._exchange, Refusal(Code.BODY_TOO_LARGE))
        elif not _TARGET.fullmatch(self._exchange.query):
            self._finish(self._client, self._exchange, Refusal(Code.MALFORMED_REQUEST))
        elif self._house.is_full:
            refusal = Refusal(Code.HOUSE_AWAY, _FULL, retry_after_s=1)
            self._finish(self._client, self._exchange, refusal)
        else:
            self._client.work = self
            self._house.calls += 1
            self._task = tasks.spawn("house", self._run())
            self._task.add_done_callback(self._done)

    def on_client_gone(self) -> None:
        """See ``ports.Work``."""
        self._end()
        self._exchange.state = State.CANCELLED
        self._leave(self._exchange)

    def on_paused(self) -> None:
        """See ``ports.Work``."""
        self._may_write.clear()

    def on_resumed(self) -> None:
        """See ``ports.Work``."""
        self._may_write.set()

    def on_overdue(self) -> None:
        """See ``ports.Work``: each wait here has a bound of its own."""

    def on_routes_changed(self) -> None:
        """See ``ports.Work``."""

    def cancel(self) -> None:
        """See ``ports.Work``."""
        self._end()
        self._fail(Refusal(Code.SHUTTING_DOWN, retry_after_s=1))

    def on_fault(self, error: Exception) -> None:
        """See ``ports.Work``."""
        _log.error("request_failed", request_id=self._exchange.request_id, exc=error)
        self._end()
        self._fail(Refusal(Code.INTERNAL))

    def _done(self, _task: asyncio.Task[None]) -> None:
        self._house.calls -= 1

    async def _run(self) -> None:
        try:
            await self._pass_on()
        except (OSError, TimeoutError, HouseBroken) as error:
            self._task = None
            _log.warning("house_away", request_id=self._exchange.request_id, reason=repr(error))
            self._fail(Refusal(Code.HOUSE_AWAY, retry_after_s=5))
        except Exception as error:  # noqa: BLE001 - the client must hear of it
            self._task = None
            self.on_fault(error)

    async def _pass_on(self) -> None:
        async with asyncio.timeout(_DIAL_S):
            reader, writer = await asyncio.open_unix_connection(
                str(self._house.socket), limit=house_answers.MOST_HEAD_BYTES
            )
        try:
            writer.write(self._request)
            async with asyncio.timeout(_HEAD_S):
                answer = await house_answers.begun(reader, method=self._exchange.method)
            self._begin(answer)
            while not answer.is_whole:
                async with asyncio.timeout(_SILENCE_S):
                    await self._may_write.wait()
                    piece = answer.taken(await reader.read(_PIECE_BYTES))
                self._client.write(piece)
        finally:
            writer.close()
        self._close()

    def _begin(self, answer: HouseAnswer) -> None:
        exchange = self._exchange
        exchange.status = answer.status
        if answer.ends_at_close:
            exchange.keeps_open = False
        self._client.closes_after(exchange)
        self._client.write(answer.head(exchange))
        self.has_begun_answer = True

    def _close(self) -> None:
        self._task = None
        exchange = self._exchange
        exchange.state = State.COMPLETED if exchange.status < 400 else State.FAILED
        self._leave(exchange)
        self._client.finish()

    def _fail(self, refusal: Refusal) -> None:
        """Answer, or where an answer has begun have the client see that it is not whole."""
        if not self.has_begun_answer:
            self._finish(self._client, self._exchange, refusal)
            return
        self._exchange.code = refusal.code
        self._exchange.state = State.FAILED
        self._leave(self._exchange)
        self._client.break_off(resets=True)

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None


def _request(exchange: Exchange, *, peer: str) -> bytes:
    """What the control plane gets; its answer ends with the connection."""
    target = exchange.path + (b"?" + exchange.query if exchange.query else b"")
    version = b"1.0" if exchange.is_http10 else b"1.1"
    fields = exchange.headers
    lines = [b"%b %b HTTP/%b" % (exchange.method, target, version)]
    lines += [b"%b: %b" % (name, fields[name]) for name in _PASSED if name in fields]
    lines += [
        b"connection: close",
        b"content-length: %d" % exchange.body_bytes,
        b"x-request-id: %b" % exchange.request_key,
        b"x-llmgw-peer: %b" % peer.encode("ascii", "replace"),
    ]
    if exchange.grant is not None:
        lines.append(b"x-llmgw-principal: %b" % exchange.grant.principal.key_id.encode())
    return b"\r\n".join(lines) + b"\r\n\r\n" + exchange.body
