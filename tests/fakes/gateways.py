"""Gateways as the reconciler sees them: what a test says, and what they were told."""

from __future__ import annotations

from llmgw.domain.traffic import EndpointTraffic, Traffic


class FakeGateways:
    """Fits ``control.reconciler.ports.Gateways``."""

    def __init__(self):
        self.endpoints = {}
        self.asked = frozenset()
        self.has_latest_table = True
        self.told = []
        self._subscribers = []

    def traffic(self):
        return Traffic(self.endpoints, self.asked, self.has_latest_table)

    def subscribe(self, on_news):
        self._subscribers.append(on_news)
        return lambda: self._subscribers.remove(on_news)

    def worked(self, endpoint_id, *, worked_at, looked_at):
        self.told.append((endpoint_id, worked_at, looked_at))

    def ask(self, *models):
        """Requests wait for these models and no others."""
        self.asked = frozenset(models)
        self.tell()

    def see(self, endpoint_id, **figures):
        self.endpoints = {**self.endpoints, endpoint_id: EndpointTraffic(**figures)}

    def tell(self):
        for on_news in tuple(self._subscribers):
            on_news()
