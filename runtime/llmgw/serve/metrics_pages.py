"""One page of metrics for one scrape: the gateway's figures, then the control plane's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from llmgw.api.ports import MetricsPage


class MetricsPages:
    """Fits ``api.ports.MetricsPage``."""

    def __init__(self, gateway: MetricsPage, *, fleet: Callable[[], Awaitable[str]]) -> None:
        """``fleet`` is the control plane's page; no family is on both."""
        self._gateway = gateway
        self._fleet = fleet

    async def metrics_page(self) -> str:
        """Both pages as one."""
        return await self._gateway.metrics_page() + await self._fleet()
