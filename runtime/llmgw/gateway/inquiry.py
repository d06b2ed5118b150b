"""Answer a question that another worker may know the answer to, such as for a receipt.

``pipeline`` begins one where this worker knows nothing; its client waits a second or so at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from llmgw.gateway.exchange import Exchange
from llmgw.gateway.ports import Client, Siblings
from llmgw.gateway.replies import Answer, Code, Refusal
from llmgw.kit import logs
from llmgw.kit.tasks import Tasks

_log = logs.get(__name__)

Finish: TypeAlias = Callable[[Client, Exchange, Answer | Refusal], None]
"""Closes the account and answers."""

Leave: TypeAlias = Callable[[Exchange], None]
"""Closes the account of a request whose client has left."""

_NOT_ALL_KNOWN = (
    "No request of this id is known here; a worker of this host did not answer, so ask again."
)


class Inquiry:
    """One question for a receipt; fits ``ports.Work``."""

    has_begun_answer = False

    def __init__(
        self,
        client: Client,
        exchange: Exchange,
        *,
        siblings: Siblings,
        unknown: Refusal,
        finish: Finish,
        leave: Leave,
    ) -> None:
        """``unknown`` is the answer when nobody knows the request."""
        self._client = client
        self._exchange = exchange
        self._siblings = siblings
        self._unknown = unknown
        self._finish = finish
        self._leave = leave
        self._task: asyncio.Task[None] | None = None

    def start(self, request_id: str, *, tasks: Tasks) -> None:
        """Ask; from here on the client's connection talks to this object."""
        self._client.work = self
        self._task = tasks.spawn("inquiry", self._ask(request_id))

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

    async def _ask(self, request_id: str) -> None:
        try:
            word = await self._siblings.receipt(request_id)
        except Exception as error:  # noqa: BLE001 - the client must hear of it
            self._task = None
            self.on_fault(error)
            return
        self._task = None
        if word.receipt is not None:
            answer: Answer | Refusal = Answer(200, word.receipt)
        elif word.is_complete:
            answer = self._unknown
        else:
            answer = Refusal(self._unknown.code, _NOT_ALL_KNOWN)
        self._finish(self._client, self._exchange, answer)

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
