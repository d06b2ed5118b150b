"""Joins what a host's server does about keys, limits and usage: desk, limits board and ledger.

Imported where keys are asked for, and only there: it knows the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from llmgw.accounting import journal_files, limit_layout, prices, rebuilding
from llmgw.accounting.elsewhere import Elsewhere
from llmgw.accounting.host_limits import HostLimits
from llmgw.accounting.ledger import Ledger
from llmgw.accounting.retention import Retention
from llmgw.api.own_usage import OwnUsage
from llmgw.config import store_address
from llmgw.config.settings import ServerSettings
from llmgw.domain.usage_rows import UsageRow
from llmgw.errors import Unavailable
from llmgw.gateway import families
from llmgw.kit import logs, metrics
from llmgw.kit.clock import SystemClock
from llmgw.kit.tasks import Tasks
from llmgw.serve import accounts
from llmgw.serve.key_desk import KeyDesk
from llmgw.serve.messages import AccessSettings, KeyAnswer
from llmgw.serve.pages import Pages
from llmgw.store import leases_repo, opening
from llmgw.store.database import Sizing
from llmgw.store.leases_repo import FileLock
from llmgw.store.opening import Store

_CATCH_UP_S = 2.0
_OPEN_EVERY_S = 2.0

_log = logs.get(__name__)


class HostAccess:
    """Fits ``workers.Access``, from ``start`` to ``close``."""

    def __init__(
        self,
        settings: ServerSettings,
        *,
        store: Store,
        is_own: bool,
        may_migrate: bool,
        environ: Mapping[str, str],
    ) -> None:
        """Nothing is opened yet; a store of its own it opens and closes."""
        self._may_migrate = may_migrate
        auth, clock = settings.auth, SystemClock()
        self._store = store
        self._is_own = is_own
        self._tasks = Tasks(owner="access")
        self.settings = access_settings(settings)
        self._run_dir = Path(settings.run_dir)
        self._clock = clock
        self._limits: HostLimits | None = None
        self._in_use: FileLock | None = None
        self._elsewhere = Elsewhere(store.usage, sums=store.usage_sums, clock=clock)
        # Others can use the same store only where it is no file of this host.
        self._is_shared = not auth.store.startswith("/")
        self._ledger = Ledger(
            Path(settings.state_dir) / journal_files.FOLDER,
            rows=self._elsewhere if self._is_shared else store.usage,
            clock=clock,
            on_finished=self._finished,
            batch_rows=auth.usage.batch_size,
            every_s=auth.usage.flush_interval,
        )
        self._retention = Retention(store.usage, retain_days=auth.usage.retain_days, clock=clock)
        joined = accounts.joined(store, settings=settings, clock=clock, tells_acts=True)
        own = OwnUsage(chains=joined.directory, sums=store.usage_sums, clock=clock)
        self._pages = Pages(
            joined, auth=auth, run_dir=self._run_dir, environ=environ, others=own.routes()
        )
        self._desk = KeyDesk(
            joined.directory,
            stamps=store.keys,
            spendings=self._elsewhere.spendings
            if self._is_shared
            else partial(rebuilding.spendings, store.usage_sums),
            caught_up=partial(self._ledger.caught_up, within_s=_CATCH_UP_S),
            clock=clock,
        )

    async def start(self) -> None:
        """See ``keyed.AccessLike``."""
        if self._is_own:
            self._say_in_use()
            if not await self._opened():
                self._tasks.spawn("open", self._open_later())
        self._ledger.start()
        if self._is_shared:
            self._elsewhere.start()
        self._retention.start()
        self._desk.start()
        self._pages.start()

    async def close(self) -> None:
        """See ``keyed.AccessLike``."""
        await self._tasks.close()
        await self._pages.close()
        await self._desk.close()
        await self._retention.close()
        await self._ledger.close()
        await self._elsewhere.close()
        if self._is_own:
            await self._store.close()
        if self._in_use is not None:
            self._in_use.release()

    def open(self, *, rows: Iterable[int]) -> None:
        """See ``workers.Access``."""
        taken = [_row(row) for row in rows]
        self._limits = HostLimits.opened(self._run_dir, rows=taken, now=self._clock.wall())
        self._desk.slots = self._elsewhere.board = self._limits

    def seat(self, row: int) -> None:
        """See ``workers.Access``."""
        if self._limits is not None:
            self._limits.seat(_row(row))

    def leave(self, row: int, *, pid: int) -> None:
        """See ``workers.Access``."""
        if self._limits is not None:
            self._limits.leave(_row(row), tag=str(pid), now=self._clock.wall())

    async def metrics_page(self) -> str:
        """The ledger's figures."""
        return metrics.render(self._ledger.figures(), families.FAMILIES)

    async def answer(self, key_hash: str) -> KeyAnswer:
        """See ``workers.Access``."""
        return await self._desk.answer(key_hash)

    def _say_in_use(self) -> None:
        """So that nobody moves a file under us; who leads holds another lock on it."""
        path = self._store.database.address.path
        if path is not None:
            self._in_use = leases_repo.use_lock_beside(path)
            self._in_use.take(is_shared=True)

    async def _opened(self) -> bool:
        try:
            await self._store.open(may_migrate=self._may_migrate)
        except Unavailable as error:
            _log.warning("store_away", reason=error.message, means="unknown keys have to wait")
            return False
        return True

    async def _open_later(self) -> None:
        while True:
            await asyncio.sleep(_OPEN_EVERY_S)
            if await self._opened():
                return

    def _finished(self, tag: str, lost: Sequence[UsageRow]) -> None:
        if self._limits is not None:
            self._limits.settle(tag, self._desk.counters_of(lost), now=self._clock.wall())


def make(
    settings: ServerSettings,
    *,
    store: Store | None,
    environ: Mapping[str, str],
    may_migrate: bool = True,
) -> HostAccess:
    """With the store of the control plane, where there is one that has it open.

    A gateway on another host may not migrate it: it would do so under the servers.
    """
    if store is not None:
        return HostAccess(settings, store=store, is_own=False, may_migrate=False, environ=environ)
    auth = settings.auth
    address = store_address.resolve(auth.store, environ=environ)
    opening.check_owner(address)
    sizing = Sizing(connections=auth.store_connections, timeout_s=auth.store_timeout_s)
    store = Store(address, sizing=sizing)
    return HostAccess(settings, store=store, is_own=True, may_migrate=may_migrate, environ=environ)


def access_settings(settings: ServerSettings) -> AccessSettings:
    """What the workers must know of it."""
    auth = settings.auth
    return AccessSettings(
        cache_ttl_s=auth.cache_ttl,
        negative_ttl_s=auth.negative_ttl,
        stale_ttl_s=auth.stale_ttl,
        default_tokens=settings.accounting.default_completion_tokens,
        usage_dir=str(Path(settings.state_dir) / journal_files.FOLDER),
        limits_board=str(limit_layout.path(Path(settings.run_dir))),
        prices=prices.listed(auth.pricing),
        default_price=prices.written(auth.default_price),
    )


def _row(row: int) -> int:
    """The row on the limits board of who has this one on the load board; the first is ours."""
    return row + 1
