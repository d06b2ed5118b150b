"""The support bundle of a running control plane: whole, and with no secret in it."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from pathlib import Path

from llmgw.control.recorder import journal, replaying
from llmgw.domain.replicas import ShardReport, ShardState
from tests.fakes import clusters
from tests.fakes.simulated import control_plane

CANARIES = {name: f"canary-{name}-4711" for name in ("env", "args", "source", "label", "output")}


def model():
    return {
        "name": "m",
        "source": f"https://user:{CANARIES['source']}@host/m.gguf",
        "scaling": {"min": 1},
        "profiles": [
            {
                "name": "p",
                "engine": "sim",
                "args": ["--api-key", CANARIES["args"]],
                "env": {"HF_TOKEN": CANARIES["env"], "SHORT": "x1"},
            }
        ],
    }


async def placed(plane):
    async with asyncio.timeout(10):
        while not plane.reconciler.replicas():  # noqa: ASYNC110 - what is awaited is no event of ours
            await asyncio.sleep(0.01)
    (view,) = plane.reconciler.replicas()
    return view


async def recorded(folder, *, passes):
    async with asyncio.timeout(10):
        while not (folder / "journal").is_dir() or len(list(journal.read(folder))) < passes:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.05)


def unpacked(content):
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {Path(m.name).name: archive.extractfile(m).read().decode() for m in archive}


async def test_no_secret_of_a_fleet_is_in_its_bundle_and_the_journal_in_it_replays(tmp_path):
    async with control_plane(tmp_path, model(), expect=["n1"], interval=0.1) as plane:
        labels = {"bmc_token": CANARIES["label"], "rack": "a"}
        plane.reconciler.register(clusters.facts("n1", labels=labels), ())
        view = await placed(plane)
        failed = ShardReport(
            node_id="n1",
            replica_id=view.replica_id,
            shard_id=view.shards[0].shard_id,
            state=ShardState.FAILED,
            error=f"cannot log in with {CANARIES['env']}",
            last_output=(f"key {CANARIES['output']}",),
        )
        plane.reconciler.shard_report(failed)
        await recorded(tmp_path, passes=6)
        content = await plane.shown.bundles.support_bundle(passes=500)
    files = unpacked(content)
    whole = "".join(files.values())
    assert [name for name, canary in CANARIES.items() if canary in whole] == []
    assert clusters.facts("n1").mgmt_addr not in whole
    about = json.loads(files["about.json"])
    assert about["passes"] >= 6
    assert json.loads(files["nodes.json"])[0]["labels"]["rack"] == "a"
    bundle = tmp_path / "b.tar.gz"
    bundle.write_bytes(content)
    replays = [replaying.replay(one) for one in journal.read(bundle)]
    assert len(replays) == about["passes"]
    assert all(one.is_same for one in replays)


async def test_a_bundle_without_a_journal_says_why(tmp_path):
    async with control_plane(tmp_path, model(), journal_bytes=0) as plane:
        files = unpacked(await plane.shown.bundles.support_bundle(passes=10))
    about = json.loads(files["about.json"])
    assert about["passes"] == 0
    assert "no journal of passes" in about["journal"]


async def test_a_bundle_has_the_last_passes_and_no_more_than_were_asked_for(tmp_path):
    async with control_plane(tmp_path, model(), interval=0.1) as plane:
        await recorded(tmp_path, passes=5)
        bundle = tmp_path / "b.tar.gz"
        bundle.write_bytes(await plane.shown.bundles.support_bundle(passes=2))
    numbers = [one.number for one in journal.read(bundle)]
    assert len(numbers) == 2
    assert numbers[0] >= 4
