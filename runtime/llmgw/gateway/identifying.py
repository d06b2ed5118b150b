"""Find out whose request it is, where keys are asked for.

``pipeline`` reads the key of each request and mostly knows its owner at once; else an
``Identification`` waits for the answer, within the bound that ``ports.KeyLookup`` keeps.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final, TypeAlias

from llmgw.domain.principals import Principal
from llmgw.errors import KeysUnavailable, KeyUnknown
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.ports import Client, KeyLookup
from llmgw.gateway.replies import Answer, Code, Refusal
from llmgw.kit import logs
from llmgw.kit.tasks import Tasks

_log = logs.get(__name__)

OPEN_PATHS: Final = frozenset({b"/", b"/health", b"/ready", b"*"})
"""What is answered without a key, each of them exactly; everything else asks for one."""

_MOST_KEY_BYTES: Final = 512
_BEARER: Final = b"bearer "

NO_KEY: Final = Refusal(
    Code.INVALID_API_KEY, "Send your key as `Authorization: Bearer …` or as `x-api-key`."
)
_TWO_KEYS: Final = Refusal(Code.INVALID_API_KEY, "Two different keys were sent.")
UNKNOWN_KEY: Final = Refusal(Code.INVALID_API_KEY)

Finish: TypeAlias = Callable[[Client, Exchange, Answer | Refusal], None]
Go: TypeAlias = Callable[[Client, Exchange, Principal], None]
Leave: TypeAlias = Callable[[Exchange], None]


def token_of(headers: dict[bytes, bytes]) -> str | Refusal:
    """The key that a request carries, or why it carries none."""
    key = headers.get(b"x-api-key")
    said = headers.get(b"authorization")
    if said is not None and said[:7].lower() == _BEARER:
        token = said[7:].strip()
        if key is not None and key.strip() != token:
            return _TWO_KEYS
    elif key is None:
        return NO_KEY
    else:
        token = key.strip()
    if not 0 < len(token) <= _MOST_KEY_BYTES:
        return UNKNOWN_KEY
    return token.decode("latin-1")


def unavailable(error: KeysUnavailable) -> Refusal:
    """Nobody can tell now whose the key is."""
    return Refusal(Code.AUTH_UNAVAILABLE, retry_after_s=max(math.ceil(error.retry_after_s), 1))


class Identification:
    """One question for the owner of a key; fits ``ports.Work``."""

    has_begun_answer = False

    def __init__(
        self,
        client: Client,
        exchange: Exchange,
        *,
        keys: KeyLookup,
        go: Go,
        finish: Finish,
        leave: Leave,
    ) -> None:
        """``go`` goes on with the request, ``finish`` refuses it, ``leave`` forgets it."""
        self._client = client
        self._exchange = exchange
        self._keys = keys
        self._go = go
        self._finish = finish
        self._leave = leave
        self._task: asyncio.Task[None] | None = None

    def start(self, token: str, *, tasks: Tasks) -> None:
        """Ask; from here on the client's connection talks to this object."""
        self._client.work = self
        self._task = tasks.spawn("identification", self._ask(token))

    def on_client_gone(self) -> None:
        """See ``ports.Work``: nobody waits for the answer."""
        self._end()
        self._leave(self._exchange)

    def on_paused(self) -> None:
        """See ``ports.Work``: nothing is being written."""

    def on_resumed(self) -> None:
        """See ``ports.Work``."""

    def on_overdue(self) -> None:
        """See ``ports.Work``: the question has a bound of its own."""

    def on_routes_changed(self) -> None:
        """See ``ports.Work``."""

    def cancel(self) -> None:
        """See ``ports.Work``."""
        self._end()
        refusal = Refusal(Code.SHUTTING_DOWN, retry_after_s=1)
        self._finish(self._client, self._exchange, refusal)

    def on_fault(self, error: Exception) -> None:
        """See ``ports.Work``."""
        _log.error("request_failed", request_id=self._exchange.request_id, exc=error)
        self._end()
        self._finish(self._client, self._exchange, Refusal(Code.INTERNAL))

    async def _ask(self, token: str) -> None:
        try:
            principal = await self._keys.ask(token)
        except KeyUnknown:
            self._task = None
            self._finish(self._client, self._exchange, UNKNOWN_KEY)
            return
        except KeysUnavailable as away:
            self._task = None
            self._finish(self._client, self._exchange, unavailable(away))
            return
        except Exception as error:  # noqa: BLE001 - the client must hear of it
            self._task = None
            self.on_fault(error)
            return
        self._task = None
        try:
            self._go(self._client, self._exchange, principal)
        except Exception as fault:  # noqa: BLE001 - as of any work that fails
            work = self._client.work
            if work is not None:
                work.on_fault(fault)

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
