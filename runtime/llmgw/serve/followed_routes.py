"""The table that a gateway follows: made of what the control plane tells, one update after another.

An update of an older term than was seen is not followed, and a difference to a table that never
came ends the call: the next one begins with a whole table. What is followed reaches the workers
and the disk by ``LiveRoutes``; it stands for as long as nobody tells of another.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmgw.domain import route_changes
from llmgw.domain.routes import RoutedModel, RouteTable
from llmgw.errors import Conflict, Invalid, Standby
from llmgw.rpc import wire_routes
from llmgw.rpc.v1 import gateway_pb2 as pb
from llmgw.serve.liveroutes import LiveRoutes


class FollowedRoutes:
    """See the module."""

    def __init__(self, routes: LiveRoutes) -> None:
        """Go on with the table that ``routes`` has, such as that of an earlier process."""
        self._routes = routes
        self._told: RouteTable | None = None
        self.term = routes.current().term

    @property
    def number(self) -> int:
        """Of the table that is followed; 0 where none has ever come."""
        return self._routes.current().number

    def begin(self, update: pb.RouteUpdate) -> None:
        """A call has begun, and this is its first word; its first table will be a whole one."""
        if update.WhichOneof("kind") != "welcome":
            raise Invalid("the first word of the control plane was no welcome")
        self._told = None
        self._check(update.term)

    def take(self, update: pb.RouteUpdate) -> None:
        """Follow an update; ``Standby`` for an older term, ``Conflict`` where one is missing."""
        self._check(update.term)
        kind = update.WhichOneof("kind")
        if kind == "snapshot":
            self._told = wire_routes.unpack_snapshot(update)
        elif kind == "difference":
            self._told = self._changed(update)
        else:
            return  # of a newer control plane; tables come as these two
        self._routes.put(self._told)

    def overlay(self, models: Sequence[RoutedModel]) -> None:
        """Newer facts of models that requests wait for, until the next table."""
        current = self._routes.current()
        table = route_changes.overlaid(current, models)
        if table is not current:
            self._routes.put(table)

    def _changed(self, update: pb.RouteUpdate) -> RouteTable:
        if self._told is None or self._told.term != update.term:
            raise Conflict("a difference came before the table that it changes")
        return route_changes.applied(self._told, wire_routes.unpack_change(update))

    def _check(self, term: int) -> None:
        if 0 < term < self.term:
            raise Standby(
                f"term {term} is over: this gateway has seen term {self.term}, so another leads"
            )
        self.term = max(self.term, term)
