"""The route table of one process: who knows better puts a new one, the gateway hears at once."""

from __future__ import annotations

from collections.abc import Callable

from llmgw.domain.routes import RouteTable
from llmgw.kit.subscribers import Subscribers

OnTable = Callable[[RouteTable], None]


class LiveRoutes:
    """Fits ``gateway.ports.RouteSource``: the current table and those who want each next one."""

    def __init__(self, table: RouteTable | None = None) -> None:
        """Begin with ``table``, or with one that serves nothing."""
        self._table = table or RouteTable()
        self._subscribers: Subscribers[OnTable] = Subscribers()

    def current(self) -> RouteTable:
        """The table that holds now."""
        return self._table

    def subscribe(self, callback: OnTable) -> Callable[[], None]:
        """Have ``callback`` called with each later table; call what is returned to end that."""
        return self._subscribers.add(callback)

    def put(self, table: RouteTable) -> None:
        """Replace the table and tell every subscriber."""
        self._table = table
        for callback in self._subscribers:
            callback(table)
