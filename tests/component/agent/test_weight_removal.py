"""What a removal may touch: downloads that nobody uses or fetches, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from llmgw.agent.discovery import weights_scan
from llmgw.agent.weights import shelf as shelves
from llmgw.agent.weights.holds import Holds
from llmgw.agent.weights.shelf import Kind
from llmgw.domain import weights as naming
from llmgw.errors import Conflict, Denied
from llmgw.kit.clock import SystemClock
from tests.fakes import fetcher
from tests.fakes.http_files import Generated, Reply, serving
from tests.fakes.waiting import eventually

SOURCE = "https://host/llama.gguf"
NAME = naming.cache_name(SOURCE)


@pytest.fixture
async def shelf(tmp_path):
    made = fetcher.shelf(tmp_path / "cache")
    made.prepare()
    yield made
    await made.close()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def fill(folder):
    folder.mkdir()
    (folder / "one.safetensors").write_bytes(b"x")
    return folder


async def remove(shelf, path, **sources_by_shard):
    return await shelf.remove(str(path), sources_by_shard=sources_by_shard)


async def test_a_fetched_file_is_removed_by_its_path_or_its_name(shelf, folder):
    for path in (folder / NAME, NAME):
        (folder / NAME).write_bytes(b"x")
        assert await remove(shelf, path)
        assert list(folder.iterdir()) == []


async def test_a_fetched_set_is_removed_with_all_its_files(shelf, folder):
    fill(folder / NAME)
    assert await remove(shelf, folder / NAME)
    assert list(folder.iterdir()) == []


async def test_what_is_not_there_is_no_failure(shelf, folder):
    assert not await remove(shelf, folder / NAME)


@pytest.mark.parametrize("suffix", [".part", ".partial"])
async def test_what_a_given_up_download_left_is_removed_by_order(shelf, folder, suffix):
    (folder / f"{NAME}.part").write_bytes(b"x")
    (folder / f"{NAME}.part.json").write_text("{}")
    fill(folder / f"{NAME}.partial")
    assert await remove(shelf, folder / f"{NAME}{suffix}")
    assert not any(path.name.startswith(f"{NAME}{suffix}") for path in folder.iterdir()) or (
        suffix == ".part" and [path.name for path in folder.iterdir()] == [f"{NAME}.partial"]
    )


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("../elsewhere/{name}", id="parent"),
        pytest.param("{folder}/../elsewhere/{name}", id="traversal"),
        pytest.param("{folder}/sub/{name}", id="below"),
        pytest.param("{elsewhere}/{name}", id="elsewhere"),
        pytest.param("/", id="root"),
        pytest.param("{folder}", id="folder-itself"),
        pytest.param("{folder}/operators.gguf", id="operators"),
        pytest.param("{folder}/{name}/one.safetensors", id="inside-a-set"),
        pytest.param("{folder}/1234567890abcdef-linked.gguf", id="link"),
    ],
)
async def test_what_is_not_ours_stays_and_is_said_to(tmp_path, shelf, folder, path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / NAME).write_bytes(b"x")
    (folder / "operators.gguf").write_bytes(b"x")
    (folder / "1234567890abcdef-linked.gguf").symlink_to(elsewhere / NAME)
    (folder / "sub").mkdir()
    (folder / "sub" / NAME).write_bytes(b"x")
    fill(folder / NAME)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Denied, match=r"stays|by hand"):
        await remove(shelf, path.format(name=NAME, folder=folder, elsewhere=elsewhere))
    assert sorted(tmp_path.rglob("*")) == before


async def test_without_a_folder_nothing_is_removed(tmp_path):
    (tmp_path / NAME).touch()
    with pytest.raises(Conflict, match="weights_dir"):
        await remove(fetcher.shelf(""), tmp_path / NAME)
    assert (tmp_path / NAME).exists()


async def test_what_a_shard_uses_stays_and_the_shard_is_named(shelf, folder):
    fill(folder / NAME)
    around = f"{folder}/../{folder.name}/{NAME}"
    inside = str(folder / NAME / "one.safetensors")
    for used in (SOURCE, str(folder / NAME), inside, around):
        with pytest.raises(Conflict, match=r"shard demo-1\.0 uses it"):
            await remove(shelf, folder / NAME, **{"other": "Org/Model", "demo-1.0": used})
    assert (folder / NAME / "one.safetensors").exists()


async def test_what_is_being_fetched_stays(shelf, folder):
    body = Generated(4 << 20)
    async with serving(lambda request: Reply(headers={"ETag": '"1"'}, body=body)) as files:
        files.gate.clear()
        source = f"{files.url}/x.gguf"
        fetch = asyncio.ensure_future(shelf.ensure(source, on_progress=lambda progress: None))
        await eventually(lambda: files.requests)
        for suffix in ("", ".part"):
            with pytest.raises(Conflict, match="being fetched"):
                await remove(shelf, folder / f"{naming.cache_name(source)}{suffix}")
        files.gate.set()
        await fetch


async def test_a_shard_that_starts_during_a_removal_fetches_anew(shelf, folder):
    """Never is a path handed out whose file is on its way out."""
    body = Generated(1 << 20)
    async with serving(lambda request: Reply(headers={"ETag": '"1"'}, body=body)) as files:
        source = f"{files.url}/x.gguf"
        await shelf.ensure(source, on_progress=lambda progress: None)
        removal = asyncio.ensure_future(remove(shelf, naming.cache_name(source)))
        await asyncio.sleep(0)
        path = await shelf.ensure(source, on_progress=lambda progress: None)
        assert await removal
        assert (folder / path).stat().st_size == body.length
        assert len(files.requests) == 2


async def test_what_another_agent_fetches_stays(shelf, folder):
    (folder / f"{NAME}.part").write_bytes(b"x")
    holds = Holds(is_shared=lambda at: False, clock=SystemClock())
    hold = holds.take(folder / NAME)
    with pytest.raises(Conflict, match="another process"):
        await remove(shelf, folder / f"{NAME}.part")
    hold.release()
    assert await remove(shelf, folder / f"{NAME}.part")


async def test_a_removal_that_was_interrupted_is_ended_at_the_next_start(shelf, folder):
    trash = fill(folder / f"{NAME}.0a1b2c3d.trash")
    assert weights_scan.scan([str(folder)]) == ()
    assert [item.kind for item in shelves.stock(folder)] == [Kind.TRASH]
    shelf.prepare()
    assert not trash.exists()


async def test_what_no_source_names_stays_until_its_removal_is_ordered(shelf, folder):
    other, third = (naming.cache_name(f"https://host/{n}.gguf") for n in "ab")
    (folder / NAME).write_bytes(b"xx")
    (folder / other).write_bytes(b"xxx")
    fill(folder / f"{third}.partial")
    (folder / "operators.gguf").write_bytes(b"x")
    shelf.prepare()
    found = [one.path for one in weights_scan.scan([str(folder)])]
    orphans = naming.orphans(found, [SOURCE, "/models/x.gguf", "Org/Model"])
    assert orphans == (str(folder / other),)
    assert (folder / other).exists()
    assert await remove(shelf, orphans[0])
    assert {one.name for one in folder.iterdir()} == {NAME, f"{third}.partial", "operators.gguf"}


def test_names_of_parts_lead_to_the_name_of_the_whole():
    for end in ("", ".part", ".part.json", ".partial", ".lock", ".0a1b2c3d.trash"):
        assert shelves.whole_name(f"{NAME}{end}") == NAME
