"""The one gateway of ``llmgw up``, as the control plane beside it sees it.

Fits ``control.reconciler.ports.Gateways``, as ``workers`` does for a server.
"""

from __future__ import annotations

from collections.abc import Callable

from llmgw.domain.routes import Endpoint
from llmgw.domain.traffic import EndpointTraffic, Traffic
from llmgw.gateway import board_layout
from llmgw.gateway.board import LoadBoard
from llmgw.gateway.ports import RouteSource
from llmgw.kit.subscribers import Subscribers
from llmgw.serve.wishes import Wishes


class OneGateway:
    """Its board and its wishes; ``board`` and ``wishes`` are to be given to it."""

    def __init__(self, routes: RouteSource, *, now: Callable[[], float]) -> None:
        """``routes`` is what the gateway serves."""
        self.board = LoadBoard.private(now=now)
        self.wishes = Wishes(on_change=self._tell)
        self._routes = routes
        self._on_news: Subscribers[Callable[[], None]] = Subscribers()

    def traffic(self) -> Traffic:
        """See ``Gateways``; a table is in force as soon as it is published."""
        seen = {one.endpoint_id: self._of(one) for one in self._routes.current().endpoints}
        return Traffic(
            endpoints={name: one for name, one in seen.items() if one is not None},
            asked=self.wishes.models,
            has_latest_table=True,
        )

    def subscribe(self, on_news: Callable[[], None]) -> Callable[[], None]:
        """See ``Gateways``."""
        return self._on_news.add(on_news)

    def worked(self, endpoint_id: str, *, worked_at: float | None, looked_at: float) -> None:
        """See ``Gateways``."""
        for one in self._routes.current().endpoints:
            if one.endpoint_id == endpoint_id and self.board.allotment is not None:
                self.board.allotment.worked(_key(one), worked_at=worked_at, looked_at=looked_at)

    def _of(self, endpoint: Endpoint) -> EndpointTraffic | None:
        allotment = self.board.allotment
        return None if allotment is None else allotment.traffic(_key(endpoint))

    def _tell(self) -> None:
        for on_news in self._on_news:
            on_news()


def _key(endpoint: Endpoint) -> int:
    return board_layout.key_of(endpoint.endpoint_id, endpoint.url)
