"""Makes the gateway of one process from its settings: a worker's, or that of ``llmgw up``."""

from __future__ import annotations

import sys
from pathlib import Path

from llmgw.config.carrying import RouterSettings
from llmgw.config.settings import LogSettings
from llmgw.gateway.board import LoadBoard
from llmgw.gateway.ports import RouteSource
from llmgw.gateway.request_log import RequestLog
from llmgw.gateway.server import Doors, Gateway, Place
from llmgw.kit import logs
from llmgw.kit.clock import SystemClock
from llmgw.serve.gateway_worker import Ties
from llmgw.serve.messages import Configure
from llmgw.serve.publishing import PublisherLock

_log = logs.get(__name__)


def make(
    *,
    router: RouterSettings,
    log: LogSettings,
    routes: RouteSource,
    doors: Doors,
    place: Place | None = None,
) -> Gateway:
    """A gateway that has not started; it writes a line a request where INFO is written.

    Without ``place`` it is the only one of its host.
    """
    request_log = None
    if _log.is_enabled_for_info():
        request_log = RequestLog(
            stream=sys.stderr, as_json=log.format == "json", clock=SystemClock()
        )
    return Gateway(
        settings=router, routes=routes, request_log=request_log, place=place, doors=doors
    )


def of_worker(configured: Configure, ties: Ties) -> Gateway:
    """That of a worker, with its row on the board that all workers of the host share.

    Raises ``Invalid`` when the board is not there.
    """
    clock, board = SystemClock(), Path(configured.board)
    settings = configured.settings
    place = Place(
        board=LoadBoard.attached(board, row=configured.row, now=clock.monotonic),
        is_publisher=PublisherLock(board.parent),
        siblings=ties.siblings,
    )
    doors = Doors(
        admission=settings.admission, on_demand=settings.on_demand, load_requests=ties.wishes
    )
    return make(
        router=settings.router, log=settings.log, routes=ties.routes, place=place, doors=doors
    )
