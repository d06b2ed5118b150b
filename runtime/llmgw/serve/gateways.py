"""Makes the gateway of one process from its settings: a worker's, or that of ``llmgw up``."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from pathlib import Path

from llmgw.accounting import journal_files
from llmgw.accounting.gate import Gate
from llmgw.accounting.limit_board import LimitBoard
from llmgw.accounting.prices import RoutedPrices
from llmgw.accounting.usage_journal import UsageJournal
from llmgw.config.carrying import RouterSettings
from llmgw.config.settings import LogSettings
from llmgw.domain.pricing import PriceTable
from llmgw.gateway.board import LoadBoard
from llmgw.gateway.doors import Access, Doors, Place
from llmgw.gateway.house import House
from llmgw.gateway.ports import RouteSource
from llmgw.gateway.request_log import RequestLog
from llmgw.gateway.server import Gateway
from llmgw.kit import logs
from llmgw.kit.clock import SystemClock
from llmgw.serve import house_socket
from llmgw.serve.gateway_worker import Ties
from llmgw.serve.key_cache import Ask, KeyCache, Lifetimes
from llmgw.serve.messages import AccessSettings, Configure
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
    access = house = None
    if settings.access is not None:
        house = House(house_socket.path(board.parent.parent))
        limits = LimitBoard.attached(Path(settings.access.limits_board), row=configured.row + 1)
        access = access_of(
            settings.access,
            ask=ties.keys.ask,
            limits=limits,
            routes=ties.routes,
            run_dir=board.parent.parent,
        )
    doors = Doors(
        admission=settings.admission,
        on_demand=settings.on_demand,
        load_requests=ties.wishes,
        access=access,
        house=house,
    )
    return make(
        router=settings.router, log=settings.log, routes=ties.routes, place=place, doors=doors
    )


def access_of(
    settings: AccessSettings,
    *,
    ask: Ask,
    limits: LimitBoard,
    routes: RouteSource,
    run_dir: Path,
) -> Access:
    """Keys, limits and usage of one process that carries requests.

    ``ask`` asks who opens the store; raises ``Invalid`` when usage cannot be noted.
    """
    clock = SystemClock()
    listed = PriceTable(settings.prices, default=settings.default_price)
    prices = RoutedPrices(listed, current=routes.current)
    gate = Gate(limits, price_of=prices.of, now=clock.wall)
    journal = UsageJournal(
        Path(settings.usage_dir), slates=run_dir / journal_files.FOLDER, tag=str(os.getpid())
    )
    keys = KeyCache(
        ask,
        lifetimes=Lifetimes(
            good_s=settings.cache_ttl_s,
            bad_s=settings.negative_ttl_s,
            stale_s=settings.stale_ttl_s,
        ),
        learn=limits.learn,
        clock=clock,
    )
    return Access(
        keys=keys,
        gate=gate,
        sink=journal,
        look=partial(_look, gate, keys),
        start=journal.start,
        close=partial(_close, keys, gate, journal),
        default_tokens=settings.default_tokens,
        figures=journal.figures,
    )


def _look(gate: Gate, keys: KeyCache) -> None:
    gate.look()
    keys.cool()


async def _close(keys: KeyCache, gate: Gate, journal: UsageJournal) -> None:
    """Nobody sends any more: bring what is noted to the disk."""
    await keys.close()
    gate.close()
    await asyncio.to_thread(journal.close)
