"""One replica over two machines: its ranks meet over their network, and live or end together."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from tests.fakes import namespaces
from tests.fakes.agents import is_alive
from tests.fakes.deployment import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

AGENT_PORT = 7443
CARD = (
    "0, GPU-{number}, NVIDIA H100 80GB HBM3, 81559, 4, 9.0, 00000000:17:00.0, 550.54.15, 31, 0, 0"
)
MODEL = {
    "name": "pair",
    "source": "sim",
    "scaling": {"min": 1},
    "profiles": [
        {
            "name": "two",
            "engine": "sim",
            "gpu_class": "h100-80g",
            "nodes": 2,
            "gpus_per_node": 1,
            "tp": 2,
        }
    ],
}


def adapter(root: Path, name: str) -> None:
    """An adapter with one active port, as the kernel shows it."""
    port = root / name / "ports" / "1"
    (port / "gids").mkdir(parents=True)
    for file, text in {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "200 Gb/sec (4X HDR)",
        "link_layer": "InfiniBand",
    }.items():
        (port / file).write_text(f"{text}\n")


def hardware(folder: Path, number: int) -> dict[str, object]:
    """What the agent finds: a card, an adapter on the fabric, and one that is on none."""
    root = folder / f"infiniband{number}"
    adapter(root, f"mlx5_{number}")
    adapter(root, "mlx5_9")
    smi = folder / f"nvidia-smi-{number}"
    smi.write_text(f"#!/bin/sh\necho '{CARD.format(number=number)}'\n")
    smi.chmod(0o755)
    return {
        "discovery": {"nvidia_smi": str(smi), "prefer_nvml": False, "ib_root": str(root)},
        "fabrics": [{"name": "ib-a", "hcas": [f"mlx5_{number}"]}],
    }


class Pair:
    """The deployment with an agent on each machine."""

    def __init__(self, deployment, switch):
        self.deployment = deployment
        self.switch = switch

    def open(self):
        address = f"{self.switch.address}:{AGENT_PORT}"
        self.deployment.server(models=[MODEL], agent_listen=address, agent_tls="insecure")
        for number, machine in enumerate(self.switch.machines, start=1):
            self.deployment.agent(
                number,
                within=machine.within,
                server=f"http://{address}",
                # Found by the way to the server.
                mgmt_addr="",
                **hardware(self.deployment.root, number),
            )

    def cut(self):
        """Take the machines' ways to each other; both still reach the server."""
        one, other = self.switch.machines
        one.lose(other.address)
        other.lose(one.address)

    def mend(self):
        one, other = self.switch.machines
        one.find(other.address)
        other.find(one.address)

    def shards(self):
        """What the state files say, by rank: where each runs, and the pid of its engine."""
        found = {}
        for number in (1, 2):
            for path in (self.deployment.root / f"node{number}" / "work").glob("shard-*.json"):
                record = json.loads(path.read_text())
                pids = [one["pid"] for one in record["processes"]]
                found[record["spec"]["rank"]] = (number, pids[-1] if pids else None, record["spec"])
        return found

    def engines(self):
        """The pids of both ranks, once both run."""
        return until(self._pids, "both ranks run")

    def _pids(self):
        pids = [pid for _, pid, _ in self.shards().values() if pid is not None]
        return pids if len(pids) == 2 else None

    def ask(self):
        body = {"model": "pair", "messages": [{"role": "user", "content": "hi"}]}
        url = f"{self.deployment.url}/v1/chat/completions"
        return httpx.post(url, json=body, timeout=20).status_code


@pytest.fixture
def pair(deployment):
    with namespaces.joined(2) as switch:
        yield Pair(deployment, switch)
        deployment.close()


def environment(pid):
    raw = Path(f"/proc/{pid}/environ").read_bytes().decode()
    return dict(line.partition("=")[::2] for line in raw.split("\0") if line)


def test_ranks_wait_for_each_other_see_their_fabric_alone_and_are_rebuilt_together(pair):
    pair.cut()
    pair.open()
    until(lambda: pair.shards().get(0, (0, None))[1], "the leader runs")
    time.sleep(2)
    _, worker, spec = until(lambda: pair.shards().get(1), "the worker is ordered")
    assert worker is None, "no process of it before the leader's port can be reached"
    assert spec["leader_addr"] in {one.address for one in pair.switch.machines}
    assert pair.deployment.ready("pair") == []
    pair.mend()
    pair.deployment.wait_ready("pair", 1)
    assert pair.ask() == 200

    for number, pid, spec in pair.shards().values():
        seen = environment(pid)
        assert spec["hcas"] == [f"mlx5_{number}"]
        assert seen["NCCL_IB_HCA"] == f"=mlx5_{number}", "and not the adapter of no fabric"
        assert seen["NCCL_SOCKET_IFNAME"] == f"={namespaces.INTERFACE}"
        assert not any("mlx5_9" in value for value in seen.values())

    for rank in (1, 0):
        (before,) = pair.deployment.ready("pair")
        pids = pair.engines()
        os.kill(pair.shards()[rank][1], signal.SIGKILL)
        until(lambda pids=pids: not any(map(is_alive, pids)), "no rank is left")
        pair.deployment.wait_ready("pair", 1)
        (after,) = pair.deployment.ready("pair")
        assert after["replica_id"] != before["replica_id"]
        assert not set(pair.engines()) & set(pids)
        assert pair.ask() == 200
