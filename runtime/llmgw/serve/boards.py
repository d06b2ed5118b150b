"""The load board of a host as its server has it: rows for workers, slots for endpoints.

``workers`` gives each worker a row and has a dead one's emptied; it lists the endpoints of a table
here before it sends the table, so that every worker finds their slots.
The board outlives the server as the workers do: the next server goes on with it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from llmgw.domain.routes import RouteTable
from llmgw.domain.traffic import EndpointTraffic
from llmgw.errors import Unavailable
from llmgw.gateway import board_layout
from llmgw.gateway.allotting import Allotment
from llmgw.gateway.board_layout import Layout
from llmgw.kit import logs, mmapboard

_KEEP_SLOT_S = 60.0
"""So long a worker may be late with the news that an endpoint left."""

_log = logs.get(__name__)


class HostBoard:
    """See the module; only who holds the lock of the run folder may have one."""

    def __init__(self, words: memoryview, path: Path, *, rows: Iterable[int]) -> None:
        """Use ``opened``."""
        self.path = path
        self._words = words
        self._layout = Layout()
        self._rows = set(rows)
        self._allotment = Allotment(words, self._layout, keep_s=_KEEP_SLOT_S)
        self._keys: dict[str, int] = {}
        self._is_full = False
        for row in range(words[board_layout.ROWS_IN_USE]):
            if row not in self._rows:
                self._empty(row)
        self._say_rows()

    @classmethod
    def opened(cls, run_dir: Path, *, rows: Iterable[int] = ()) -> Self:
        """With the ``rows`` of living workers as they are and all others empty.

        Without living workers everything begins anew, and where somebody removed the file under
        them.  Raises ``Invalid`` where the folder does not let us.
        """
        path = board_layout.path(run_dir)
        kept = set(rows) if path.exists() else set()
        _remove_others(run_dir, kept=path.parent)
        make = mmapboard.attached if kept else mmapboard.created
        return cls(make(path, count=Layout().words), path, rows=kept)

    def seat_row(self) -> int:
        """A row for one worker more; raises ``Unavailable`` when all are taken."""
        for row in range(self._layout.rows):
            if row not in self._rows:
                self._rows.add(row)
                self._say_rows()
                return row
        raise Unavailable(f"all {self._layout.rows} rows of the board have a worker")

    def free_row(self, row: int) -> None:
        """Its worker has ended: what it had under way is under way no more."""
        self._empty(row)
        self._rows.discard(row)
        self._say_rows()

    def list(self, table: RouteTable) -> None:
        """Have a slot for each endpoint of a table that the workers are about to get."""
        keys = {
            one.endpoint_id: board_layout.key_of(one.endpoint_id, one.url)
            for one in table.endpoints
        }
        homeless = self._allotment.agree(keys.values(), now=time.monotonic())
        if homeless and not self._is_full:
            _log.error(
                "board_full",
                endpoints=len(keys),
                slots=self._layout.slots,
                means="the workers do not see each other's requests at the rest",
            )
        self._is_full = bool(homeless)
        self._keys = keys

    def traffic(self) -> dict[str, EndpointTraffic]:
        """What all workers know of each listed endpoint; absent where not known."""
        seen = {name: self._allotment.traffic(key) for name, key in self._keys.items()}
        return {name: one for name, one in seen.items() if one is not None}

    def worked(self, endpoint_id: str, *, worked_at: float | None, looked_at: float) -> None:
        """See ``control.reconciler.ports.Gateways``."""
        if (key := self._keys.get(endpoint_id)) is not None:
            self._allotment.worked(key, worked_at=worked_at, looked_at=looked_at)

    def _empty(self, row: int) -> None:
        first = self._layout.row_at(row)
        after = first + self._layout.row_words
        self._words[first:after] = mmapboard.in_memory(self._layout.row_words)

    def _say_rows(self) -> None:
        self._words[board_layout.ROWS_IN_USE] = max(self._rows, default=0) + 1


def _remove_others(run_dir: Path, *, kept: Path) -> None:
    """Boards of other layouts; a worker that still has one goes on with it."""
    for folder in run_dir.glob("board-v*"):
        if folder != kept:
            shutil.rmtree(folder, ignore_errors=True)
