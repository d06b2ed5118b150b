"""Random clusters and models from a seed: some nodes are silent, flagged, full or broken."""

from __future__ import annotations

import random
from dataclasses import replace

from llmgw.domain.nodes import Fabric, Liveness, Storage
from llmgw.domain.replicas import ShardState, Stray
from tests.fakes import clusters

GB = 1024**3
_CARDS = (("NVIDIA H100 80GB HBM3", 81559), ("NVIDIA A100-SXM4-40GB", 40960))
_STATES = (ShardState.PENDING, ShardState.LOADING, ShardState.READY)


class Dice:
    """All that is drawn from one seed."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def often(self, chance):
        return self._random.random() < chance

    def one(self, *choices):
        return self._random.choice(choices)

    def upto(self, most):
        return self._random.randint(0, most)

    def shuffled(self, items):
        items = list(items)
        self._random.shuffle(items)
        return items

    def cluster(self, *, most_nodes=8, ports=(20000, 20999)):
        """Nodes with replicas, releasing ones and strays on them that hold nothing twice."""
        nodes = [self._node(f"n{i}") for i in range(self.upto(most_nodes))]
        on = clusters.cluster(*nodes)
        for i, node in enumerate(nodes):
            on = self._occupied(on, node, tag=i, ports=ports)
        return on

    def models(self, *, most=3):
        return [self._model(f"m{i}") for i in range(1 + self.upto(most - 1))]

    def profile(self, name="p"):
        selector = {"zone": self.one("a", "b")} if self.often(0.2) else {}
        needs = {
            "node_selector": selector,
            "min_memory_gb": self.one(0, 0, 4, 20),
            "min_disk_gb": self.one(0, 0, 10, 40),
            "priority": self.upto(2),
        }
        kind = self.one("cpu", "gpu", "gpu", "wide")
        if kind == "cpu":
            return clusters.profile(name, engine=self.one("sim", "llamacpp"), **needs)
        if kind == "gpu":
            one = clusters.gpu_profile(name, tp=self.one(1, 2, 4), **needs)
            return replace(one, gpu_class=self.one("h100-80g", "a100-40g"))
        return clusters.wide_profile(
            name, nodes=self.one(2, 3), gpus_per_node=self.one(1, 2), **needs
        )

    def _model(self, name):
        profiles = [self.profile(f"p{i}") for i in range(1 + self.upto(1))]
        return clusters.model(name, *profiles, min=1 + self.upto(2), source=f"/weights/{name}.gguf")

    def _node(self, node_id):
        name, mib = self.one(*_CARDS)
        count = self.one(0, 0, 1, 2, 4, 8)
        disk = Storage(path="/w", free_bytes=self.upto(60) * GB, total_bytes=60 * GB)
        node = clusters.node(
            node_id,
            gpus=[self._gpu(i, count, name=name, mib=mib) for i in range(count)],
            fabrics=[
                Fabric(name=f, hcas=(f"{f}_0", f"{f}_1")) for f in ("a", "b") if self.often(0.5)
            ],
            weights=["/weights/m0.gguf"] if self.often(0.3) else [],
            labels={"zone": self.one("a", "b")} if self.often(0.7) else {},
            memory_total_mb=self.one(None, 8 * 1024, 64 * 1024),
            storage=(disk,) if self.often(0.7) else (),
            engine_versions=self.one({}, {"vllm": "1"}, {"vllm": "1", "llamacpp": "1"}),
            engines_probed=self.often(0.8),
            mgmt_addr=self.one("10.0.0.1", f"10.0.1.{node_id[1:]}", f"10.0.1.{node_id[1:]}"),
        )
        flags = {"is_cordoned": self.often(0.1), "is_connected": not self.often(0.05)}
        if self.often(0.1):
            flags["liveness"] = Liveness.UNREACHABLE
        return replace(node, **flags)

    def _gpu(self, index, count, **card):
        half = max(1, count // 2)
        group = range(half) if index < half else range(half, count)
        linked = tuple(i for i in group if i != index)
        return clusters.gpu(
            index,
            nvlink_peers=linked if self._linked(count) else (),
            problems=("ECC errors",) if self.often(0.1) else (),
            memory_used_mib=self.one(0, 0, 0, 5000),
            **card,
        )

    @staticmethod
    def _linked(count):
        return count > 2

    def _occupied(self, on, node, *, tag, ports):
        first, last = ports
        free = self.shuffled(g.index for g in node.facts.gpus)
        # Tags keep the ports of nodes that share an address apart.
        given = iter(range(first + tag, last + 1, 10))
        for i in range(self.upto(2)):
            port = next(given, None)
            if port is None:
                return on
            cards = tuple(sorted(free.pop() for _ in range(min(len(free), self.upto(2)))))
            name = f"old-{tag}{i}"
            shard = clusters.shard(
                name,
                node_id=node.node_id,
                gpu_indices=cards,
                http_port=port,
                state=self.one(*_STATES),
            )
            held = clusters.replica(name, shard, of="old", memory_claim_gb=self.one(0, 2))
            if self.often(0.3):
                held = replace(held, failed_at=clusters.NOW, failure="x")
            on = replace(on, replicas={**on.replicas, name: held})
        if self.often(0.3) and (port := next(given, None)) is not None:
            stray = Stray(
                node_id=node.node_id,
                shard_id=f"stray-{tag}.0",
                http_port=port,
                gpu_indices=tuple(free[: tag % 3]),
                cards_until_at=clusters.NOW + tag % 2,
            )
            on = replace(on, strays={**on.strays, (stray.node_id, stray.shard_id): stray})
        return on


def first_broken(promise, *, seeds):
    """The first seed for which a property fails, and how; nothing when it holds for all."""
    for seed in seeds:
        try:
            promise.hypothesis.inner_test(seed)
        except AssertionError as error:
            return seed, str(error)
    return None
