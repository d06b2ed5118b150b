"""The parts of an agent that its session calls: orders that are only noted, facts as set."""

from __future__ import annotations

import asyncio

from llmgw.domain.deeds import Deed
from llmgw.domain.nodes import HeartbeatFacts, NodeFacts, Storage
from llmgw.errors import Invalid, Unknown


class FakeOrders:
    """Notes what it is told; ``refuse`` names shards whose start is refused."""

    def __init__(self):
        self.asked = []
        self.alive = []
        self.refuse = set()
        self.logs = {"agent": ("first", "second", "third")}

    def running(self):
        return tuple(self.alive)

    def start(self, spec):
        self.asked.append(("start", spec))
        if spec.shard_id in self.refuse:
            raise Invalid(f"{spec.shard_id} cannot be started here")

    def stop(self, shard_id):
        self.asked.append(("stop", shard_id))

    def drain(self, shard_id):
        self.asked.append(("drain", shard_id))

    def log_sources(self):
        return tuple(self.logs)

    def log_tail(self, source, lines):
        if source not in self.logs:
            raise Unknown(f"no log {source!r}")
        return self.logs[source][-lines:]


class FakeUpkeep:
    """Notes what it is told; ``kept`` are paths that stay, with the reason."""

    def __init__(self):
        self.asked = []
        self.kept = {}

    def remove_weights(self, paths, *, on_done):
        self.asked.append(("remove_weights", paths))
        on_done(
            tuple(Deed(p, is_done=p not in self.kept, detail=self.kept.get(p, "")) for p in paths)
        )

    def fetch_weights(self, sources, *, is_cancelled, on_done):
        self.asked.append(("call off" if is_cancelled else "fetch", sources))
        on_done(
            tuple(Deed(s, is_done=s not in self.kept, detail=self.kept.get(s, "")) for s in sources)
        )

    def provision(self, wants, *, on_done):
        self.asked.append(("provision", wants))
        on_done(tuple(Deed(want.engine, is_done=True) for want in wants))

    def check_engine(self, engine, *, on_done):
        self.asked.append(("check_engine", engine))
        on_done((Deed(f"{engine} --help", is_done=engine == "sim", detail="5 options"),))


class FakeFacts:
    """A node of one figure; ``hang`` makes the next readings never end."""

    def __init__(self, node_id="node01"):
        self.node = NodeFacts(node_id=node_id, engine_versions={"sim": "1"}, engines_probed=True)
        self.reading = HeartbeatFacts(
            storage=(Storage(path="/w", free_bytes=1, total_bytes=2),),
            weights=(),
            engine_versions={"sim": "1"},
        )
        self.scans = 0
        self.readings = 0
        self.hang = False
        self.error = None

    async def facts(self):
        self.scans += 1
        return self.node

    async def refresh(self):
        self.readings += 1
        if self.hang:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return self.reading
