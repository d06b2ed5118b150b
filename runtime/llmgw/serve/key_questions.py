"""A worker's questions for keys, put to the server over the link, and the answers that come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from llmgw.errors import KeysUnavailable
from llmgw.serve.messages import AskKey, KeyAnswer, Message


class KeyQuestions:
    """Its ``ask`` fits ``key_cache.Ask``; who asks keeps the bound of the wait."""

    def __init__(self, send: Callable[[Message], bool]) -> None:
        """``send`` says whether there is a server to send to."""
        self._send = send
        self._open: dict[str, asyncio.Future[KeyAnswer]] = {}

    async def ask(self, key_hash: str) -> KeyAnswer:
        """What the server knows of a key; ``KeysUnavailable`` without one."""
        answer = self._open.get(key_hash)
        if answer is None:
            answer = self._open[key_hash] = asyncio.get_running_loop().create_future()
            if not self._send(AskKey(key_hash=key_hash)):
                del self._open[key_hash]
                raise KeysUnavailable("no server is there that knows whose a key is")
        try:
            return await asyncio.shield(answer)
        finally:
            if self._open.get(key_hash) is answer:
                del self._open[key_hash]

    def answered(self, answer: KeyAnswer) -> None:
        """The server's word came."""
        waiting = self._open.pop(answer.key_hash, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def server_lost(self) -> None:
        """Nobody will answer what is asked now."""
        for key_hash in tuple(self._open):
            self.answered(KeyAnswer(key_hash=key_hash, outcome="unavailable"))
