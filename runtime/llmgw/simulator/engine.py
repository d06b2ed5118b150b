"""The simulated engine as a process: start, load, serve, end.

Called by ``llmgw sim-engine``. It speaks the OpenAI API like a real engine, takes the time that
it is told to take, and publishes vLLM's metric names, so that everything around it can be run
without a GPU.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import Final

from llmgw.errors import EngineFailed
from llmgw.kit import binding, logs
from llmgw.kit.addresses import Address
from llmgw.simulator import rendezvous
from llmgw.simulator.answering import Routes
from llmgw.simulator.behaviour import EngineOptions
from llmgw.simulator.listening import Connection
from llmgw.simulator.state import EngineState

try:
    import uvloop
except ImportError:  # it only makes the same work cheaper
    _new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
else:
    _new_event_loop = uvloop.new_event_loop

_log = logs.get(__name__)

_BACKLOG = 4096
WORN_OUT: Final = "answered as many requests as it was told to"


def run(options: EngineOptions) -> None:
    """Serve until SIGTERM or SIGINT; every other end is an ``LlmgwError`` that says why."""
    with asyncio.Runner(loop_factory=_new_event_loop) as runner:
        runner.run(_main(options))


async def _main(options: EngineOptions) -> None:
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, _resolve, stop)
    life = _lead if options.node_rank == 0 else _follow
    work = loop.create_task(life(options), name="sim-engine.life")
    await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        await work
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    _log.info("stopped")


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _follow(options: EngineOptions) -> None:
    if options.dist_init is None:
        return
    _log.info("joining", leader=options.dist_init, rank=options.node_rank)
    await rendezvous.follow(
        options.dist_init, rank=options.node_rank, timeout_s=options.rendezvous_timeout_s
    )


async def _lead(options: EngineOptions) -> None:
    loop = asyncio.get_running_loop()
    worn_out: asyncio.Future[None] = loop.create_future()
    state = EngineState(options, loop=loop, on_worn_out=lambda: _resolve(worn_out))
    connections: set[Connection] = set()
    routes = Routes(state)
    server = await _listen(options.listen, lambda: Connection(routes, connections))
    gathering = rendezvous.Gathering(nnodes=options.nnodes)
    try:
        await _load(options, gathering)
        state.is_ready = True
        _log.info("ready", models=",".join(options.models))
        await _until_broken(worn_out, gathering)
    finally:
        gathering.close()
        server.close()
        for connection in tuple(connections):
            connection.close()


async def _listen(at: Address, factory: Callable[[], Connection]) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(factory, at.host or None, at.port, backlog=_BACKLOG)
    except OSError as error:
        raise binding.refusal(at, error) from error
    bound = Address(host=at.host, port=server.sockets[0].getsockname()[1])
    _log.info("listening", address=bound)
    return server


async def _load(options: EngineOptions, gathering: rendezvous.Gathering) -> None:
    if options.dist_init is not None and options.nnodes > 1:
        await gathering.open(options.dist_init)
        _log.info("waiting_for_workers", nnodes=options.nnodes, port=gathering.port)
        await gathering.complete(timeout_s=options.rendezvous_timeout_s)
    await asyncio.sleep(options.load_s)
    if options.fail_start:
        raise EngineFailed("could not load the model, as it was told to")


async def _until_broken(worn_out: asyncio.Future[None], gathering: rendezvous.Gathering) -> None:
    loop = asyncio.get_running_loop()
    broken = loop.create_task(gathering.broken(), name="sim-engine.ranks")
    try:
        await asyncio.wait({worn_out, broken}, return_when=asyncio.FIRST_COMPLETED)
        if broken.done():
            await broken
        raise EngineFailed(WORN_OUT)
    finally:
        broken.cancel()
