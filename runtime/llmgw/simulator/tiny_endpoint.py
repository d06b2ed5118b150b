"""One simulated engine's OpenAI endpoint inside the process of a simulated fleet.

The same answers as ``llmgw sim-engine``, without a process of its own: a thousand of them fit into
one. Made by the shards of a simulated node.
"""

from __future__ import annotations

import asyncio

from llmgw.domain.replicas import ShardSpec
from llmgw.kit import binding
from llmgw.kit.addresses import Address
from llmgw.simulator.answering import Routes
from llmgw.simulator.behaviour import Behaviour, EngineOptions
from llmgw.simulator.listening import Connection
from llmgw.simulator.state import EngineState

_BACKLOG = 128
_CONTEXT_LENGTH = 8192


class TinyEndpoint:
    """Listens from ``open`` to ``close``; answers 503 until it is told to be ready."""

    def __init__(self, spec: ShardSpec, *, host: str, behaviour: Behaviour) -> None:
        """It will serve what ``spec`` starts, on ``host`` and the port of the spec."""
        options = EngineOptions(
            listen=Address(host=host, port=spec.http_port),
            models=(spec.profile.served_model_name,),
            behaviour=behaviour,
            context_length=spec.profile.context_length or _CONTEXT_LENGTH,
        )
        loop = asyncio.get_running_loop()
        self._state = EngineState(options, loop=loop, on_worn_out=lambda: None)
        self._routes = Routes(self._state)
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    @property
    def is_idle(self) -> bool:
        """No request runs or waits."""
        return not self._state.slots.running() and not self._state.slots.n_waiting

    async def open(self) -> None:
        """Listen; ``AlreadyHeld`` when somebody has the port."""
        at = self._state.options.listen
        making = asyncio.ensure_future(
            asyncio.get_running_loop().create_server(
                lambda: Connection(self._routes, self._connections),
                at.host,
                at.port,
                backlog=_BACKLOG,
            )
        )
        try:
            self._server = await asyncio.shield(making)
        except OSError as error:
            raise binding.refusal(at, error) from error
        except asyncio.CancelledError:
            making.add_done_callback(_close_unwanted)
            raise

    def become_ready(self) -> None:
        """The model is loaded."""
        self._state.is_ready = True

    def close(self) -> None:
        """Stop listening and cut every connection, as the end of a process does."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in tuple(self._connections):
            connection.close()


def _close_unwanted(making: asyncio.Future[asyncio.Server]) -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().close()
