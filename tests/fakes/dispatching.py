"""Orders that are only noted; nodes without a stream refuse them."""

from __future__ import annotations

from llmgw.errors import NotConnected


class FakeDispatcher:
    """Fits the reconciler's ``Dispatcher``."""

    def __init__(self):
        self.orders = []
        self.dismissed = []
        self.away = set()
        self.broken = set()

    def start(self, node_id, spec):
        self._note("start", node_id, spec.shard_id)

    def stop(self, node_id, shard_id):
        self._note("stop", node_id, shard_id)

    def drain(self, node_id, shard_id):
        self._note("drain", node_id, shard_id)

    def dismiss(self, node_id, reason):
        self.dismissed.append((node_id, reason))

    def taken(self):
        """The orders since the last time that somebody asked."""
        taken, self.orders = self.orders, []
        return taken

    def _note(self, order, node_id, shard_id):
        if node_id in self.away:
            raise NotConnected(f"node {node_id} has no stream")
        if node_id in self.broken:
            raise RuntimeError("a fault of ours")
        self.orders.append((order, node_id, shard_id))
