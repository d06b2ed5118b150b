"""Several agents with one folder, disks that fill: never one file by two, never half a model."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from llmgw.domain import weights as naming
from tests.fakes import fetcher
from tests.fakes.http_files import Generated, Plain, Reply, serving
from tests.fakes.hub import Repository, serving_hub
from tests.fakes.waiting import eventually

MIB = 1 << 20
BIG = Generated(12 * MIB)
ways_of_locking = pytest.mark.parametrize(
    "options", [pytest.param((), id="kernel"), pytest.param(("--shared",), id="lease")]
)


def one_file(body=BIG, **knobs):
    return serving(lambda request: Reply(headers={"ETag": '"v1"'}, body=body, **knobs))


def sha256(path):
    return subprocess.run(
        ["sha256sum", path], capture_output=True, text=True, check=True
    ).stdout.split()[0]


@ways_of_locking
async def test_two_agents_never_write_one_file_together(tmp_path, options):
    async with one_file() as files:
        source = f"{files.url}/big.gguf"
        files.gate.clear()
        first = await fetcher.started(tmp_path, source, *options)
        await eventually(lambda: files.requests)
        second = await fetcher.started(tmp_path, source, *options)
        await asyncio.sleep(0.7)
        files.gate.set()
        told = await asyncio.gather(fetcher.outcome(first), fetcher.outcome(second))
    assert [one["path"] for one in told] == [str(tmp_path / naming.cache_name(source))] * 2
    assert len(files.requests) == 1
    assert sha256(told[0]["path"]) == BIG.sha256()
    assert [path.name for path in tmp_path.iterdir()] == [naming.cache_name(source)]


@ways_of_locking
async def test_a_killed_agent_frees_its_download_for_the_next(tmp_path, options):
    async with one_file() as files:
        source = f"{files.url}/big.gguf"
        files.gate.clear()
        first = await fetcher.started(tmp_path, source, *options)
        part = tmp_path / f"{naming.cache_name(source)}.part"
        await eventually(lambda: files.requests and part.exists())
        second = await fetcher.started(tmp_path, source, *options)
        await asyncio.sleep(0.7)
        first.kill()
        await first.wait()
        files.gate.set()
        told = await fetcher.outcome(second)
    assert len(files.requests) == 2
    assert sha256(told["path"]) == BIG.sha256()
    assert list(told["files"]) == [naming.cache_name(source)]


@ways_of_locking
async def test_a_set_survives_an_agent_that_is_killed_at_any_of_its_files(tmp_path, options):
    """Each agent gets one file further, and nobody sees the set before it is whole."""
    names = [f"model-{i}.safetensors" for i in range(4)]
    files = {name: Generated(MIB, seed=name.encode()) for name in names}
    async with serving_hub({"o/r": Repository({**files, "config.json": Plain(b"{}")})}) as hub:
        target = tmp_path / naming.cache_name("hf:o/r")
        options = (*options, "--hub", hub.url)
        for kills in range(1, 4):
            hub.cuts = {name: [0] * 9 for name in names[kills:]}
            before = len(hub.store.requests)
            hub.store.gate.clear()
            agent = await fetcher.started(tmp_path, "hf:o/r", *options)
            await eventually(lambda before=before: len(hub.store.requests) > before)
            agent.kill()
            await agent.wait()
            hub.store.gate.set()
            assert not target.exists()
        hub.cuts = {}
        told = await fetcher.outcome(await fetcher.started(tmp_path, "hf:o/r", *options))
    assert told["path"] == str(target)
    assert list(told["files"]) == [target.name]
    for name in names:
        assert sha256(target / name) == files[name].sha256()


async def on_a_disk_of(size, folder, source, *options):
    """A fetch onto a filesystem of its own, which is gone with the process."""
    tried = await asyncio.create_subprocess_exec("unshare", "-Urm", "true")
    if await tried.wait():
        pytest.skip("no namespaces here")
    folder.mkdir()
    mount = f'mount -t tmpfs -o size={size} none "{folder}" && exec "$@"'
    before = ("unshare", "-Urm", "sh", "-c", mount, "sh")
    return await fetcher.outcome(await fetcher.started(folder, source, *options, before=before))


async def test_a_disk_that_is_too_small_is_told_before_the_first_byte(tmp_path):
    async with one_file() as files:
        source, folder = f"{files.url}/big.gguf", tmp_path / "cache"
        told = await on_a_disk_of("4m", folder, source)
    assert told["code"] == "exhausted"
    assert "needs 12.0 MiB more" in told["error"]
    assert f"the filesystem {folder} has 4.0 MiB free" in told["error"]
    assert told["files"] == {}


async def test_a_disk_that_fills_midway_fails_with_its_name_and_leaves_no_model(tmp_path):
    async with one_file(has_length=False) as files:
        source, folder = f"{files.url}/big.gguf", tmp_path / "cache"
        told = await on_a_disk_of("6m", folder, source)
    assert told["code"] == "exhausted"
    assert f"the filesystem {folder}" in told["error"]
    assert "make room there or set weights_dir" in told["error"]
    assert naming.cache_name(source) not in told["files"]
    assert told["files"][f"{naming.cache_name(source)}.part"] > 0


async def test_a_download_ends_before_it_takes_the_space_that_is_kept(tmp_path):
    async with one_file(has_length=False) as files:
        source, folder = f"{files.url}/big.gguf", tmp_path / "cache"
        told = await on_a_disk_of("12m", folder, source, "--keep-free", str(4 * MIB))
    assert "4.0 MiB are kept" in told["error"]
    assert told["free"] >= 4 * MIB - 65536


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_gigabyte_that_is_cut_ten_times_comes_whole(tmp_path):
    await assert_whole_after_ten_cuts(tmp_path, length=1 << 30)


async def test_a_file_that_is_cut_ten_times_comes_whole(tmp_path):
    await assert_whole_after_ten_cuts(tmp_path, length=22 * MIB)


async def assert_whole_after_ten_cuts(tmp_path, *, length):
    """The digest is pinned in the address, so the agent itself compares it; we do so once more."""
    body = Generated(length)
    cuts = [length // 12 + i * 1000 for i in range(10)]

    def answer(request):
        cut_after = cuts.pop(0) if cuts else None
        return Reply(headers={"ETag": '"v1"'}, body=body, cut_after=cut_after)

    digest = body.sha256()
    async with serving(answer) as files:
        shelf = fetcher.shelf(tmp_path)
        path = await shelf.ensure(
            f"{files.url}/big.gguf#sha256={digest}", on_progress=lambda progress: None
        )
        await shelf.close()
    assert sha256(path) == digest
    starts = [int(r.headers.get("range", "bytes=0-")[6:-1]) for r in files.requests]
    assert len(starts) == 11
    assert starts == sorted(set(starts))
