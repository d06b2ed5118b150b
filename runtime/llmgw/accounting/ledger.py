"""Brings usage from the journals of this host's workers to the store, each request once.

Run by the one process of a host that opens the store. A store that is away stops nothing: journals
grow on the disk, at most one batch of each is in memory, and it is brought when the store is back.
Of a worker that died the requests that ran are kept as lost, with what was estimated.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from llmgw.accounting import journal_files
from llmgw.accounting.journal_reading import JournalReader
from llmgw.domain.usage_rows import UsageRow
from llmgw.errors import LlmgwError
from llmgw.kit import logs
from llmgw.kit.backoff import Backoff
from llmgw.kit.clock import Clock
from llmgw.kit.metrics import Sample
from llmgw.kit.tasks import Tasks

BATCH_ROWS: Final = 500
EVERY_S: Final = 0.2
_MARKED_EVERY_S: Final = 2.0
_BACKOFF: Final = Backoff(base_s=0.2, max_s=5.0)
_LAST_S: Final = 3.0
"""How long the end waits for what is read to be kept."""

_log = logs.get(__name__)

OnFinished = Callable[[str, Sequence[UsageRow]], None]
"""Told the tag of a journal whose every request is kept, and those that were lost with it."""


class Rows(Protocol):
    """Where rows are kept; ``store.usage_repo.UsageRepo`` fits."""

    async def write(self, rows: Sequence[UsageRow]) -> int:
        """Keep what is not there yet."""
        ...


class Ledger:
    """The journals of one folder, from ``start`` to ``close``."""

    def __init__(
        self,
        folder: Path,
        *,
        rows: Rows,
        clock: Clock,
        on_finished: OnFinished | None = None,
        batch_rows: int = BATCH_ROWS,
        every_s: float = EVERY_S,
    ) -> None:
        """``folder`` is that of the journals, which need not be there yet."""
        self.kept_rows = 0
        self.lost_rows = 0
        self._folder = folder
        self._rows = rows
        self._clock = clock
        self._on_finished = on_finished
        self._batch_rows = batch_rows
        self._every_s = every_s
        self._readers: dict[str, JournalReader] = {}
        self._marked_at: dict[str, float] = {}
        self._behind_since: float | None = None
        self._look = asyncio.Event()
        self._tasks = Tasks(owner="ledger")

    @property
    def is_waiting_for_store(self) -> bool:
        """Whether rows were read that the store does not take."""
        return self._behind_since is not None

    def figures(self) -> tuple[Sample, ...]:
        """Its metrics of this moment."""
        since = self._behind_since
        behind_s = 0.0 if since is None else self._clock.monotonic() - since
        return (
            Sample("llmgw_usage_rows_total", (), self.kept_rows),
            Sample("llmgw_usage_lost_total", (), self.lost_rows),
            Sample("llmgw_usage_behind_seconds", (), behind_s),
        )

    def start(self) -> None:
        """Begin to read."""
        self._tasks.spawn("read", self._run())

    async def caught_up(self, *, within_s: float) -> bool:
        """Whether, within the time, all that was in journals at this moment is kept."""
        try:
            async with asyncio.timeout(within_s):
                # The look under way may have begun before; a writer brings lines within the next.
                await self._looked()
                await self._looked()
                goals = {
                    name: await asyncio.to_thread(reader.end)
                    for name, reader in list(self._readers.items())
                }
                while any(self._is_behind(name, goal) for name, goal in goals.items()):
                    await self._looked()
        except TimeoutError:
            return False
        return True

    def _is_behind(self, journal_id: str, goal: tuple[int, int]) -> bool:
        """Whether a journal is not read so far, or has ended and is not put away."""
        reader = self._readers.get(journal_id)
        return reader is not None and (reader.place < goal or reader.is_finished)

    async def _looked(self) -> None:
        """Return after the next look at all journals."""
        await self._look.wait()

    async def close(self) -> None:
        """Keep what has ended meanwhile, where the store takes it; the rest stays on the disk."""
        if len(self._tasks) and not self.is_waiting_for_store:
            await self.caught_up(within_s=_LAST_S)
        await self._tasks.close()
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    async def _run(self) -> None:
        while True:
            try:
                await self._take_in_new()
                is_busy = [await self._guarded(reader) for reader in list(self._readers.values())]
            except OSError as error:
                _log.error("usage_not_read", folder=str(self._folder), error=str(error))
                is_busy = []
            self._look.set()
            self._look = asyncio.Event()
            if not any(is_busy):
                await asyncio.sleep(self._every_s)

    async def _take_in_new(self) -> None:
        for files in await asyncio.to_thread(journal_files.all_in, self._folder):
            if files.journal_id not in self._readers:
                reader = await asyncio.to_thread(JournalReader, files)
                self._readers[files.journal_id] = reader

    async def _guarded(self, reader: JournalReader) -> bool:
        """One batch of one journal; whether there may be more. What fails is read once more."""
        try:
            return await self._batch(reader)
        except Exception as error:  # noqa: BLE001 - one journal must not hold up the others
            _log.error("usage_not_kept", journal=reader.journal_id, error=repr(error), exc=error)
            reader.close()
            del self._readers[reader.journal_id]
            return False

    async def _batch(self, reader: JournalReader) -> bool:
        await asyncio.to_thread(reader.look)
        is_finished = reader.is_finished  # before the last read, so that nothing comes after it
        rows = await asyncio.to_thread(reader.rows, self._batch_rows)
        if rows:
            await self._keep(rows)
            await self._mark(reader)
        elif is_finished:
            await self._finish(reader)
        else:
            await self._mark(reader)
        return len(rows) == self._batch_rows or is_finished

    async def _finish(self, reader: JournalReader) -> None:
        lost = reader.lost()
        for begin in range(0, len(lost), self._batch_rows):
            await self._keep(lost[begin : begin + self._batch_rows])
        self.lost_rows += len(lost)
        if lost:
            _log.warning(
                "usage_lost_with_worker",
                journal=reader.journal_id,
                requests=len(lost),
                means="their worker died; what they used is an estimate",
            )
        if self._on_finished is not None:
            self._on_finished(reader.tag, lost)
        await asyncio.to_thread(reader.remove)
        del self._readers[reader.journal_id]
        self._marked_at.pop(reader.journal_id, None)

    async def _mark(self, reader: JournalReader) -> None:
        """Now and then: what is read once more costs little, and a mark costs a file."""
        now = self._clock.monotonic()
        marked_at = self._marked_at.get(reader.journal_id, float("-inf"))
        if now - marked_at >= _MARKED_EVERY_S and reader.has_news:
            self._marked_at[reader.journal_id] = now
            await asyncio.to_thread(reader.mark)

    async def _keep(self, rows: Sequence[UsageRow]) -> None:
        """Try until the store has them: they are in the journal all the while."""
        attempt = 0
        while True:
            try:
                self.kept_rows += await self._rows.write(rows)
            except LlmgwError as error:
                self._say_behind(error)
            else:
                break
            await asyncio.sleep(_BACKOFF.delay_s(attempt=attempt, draw=random.random()))  # noqa: S311 - spreads tries
            attempt += 1
        if self._behind_since is not None:
            behind_s = self._clock.monotonic() - self._behind_since
            _log.info("usage_reaches_store_again", after_s=round(behind_s, 1))
            self._behind_since = None

    def _say_behind(self, error: LlmgwError) -> None:
        if self._behind_since is None:
            self._behind_since = self._clock.monotonic()
            _log.warning(
                "usage_waits_for_store",
                reason=error.message,
                means="it grows on the disk and is brought later; requests go on",
                folder=str(self._folder),
            )
