"""Models from a mirror and from plain addresses, compared with what is published."""

from __future__ import annotations

import pytest

from llmgw.domain import weights as naming
from llmgw.errors import Invalid, Unknown
from tests.fakes.checkpoints import (
    CHECKPOINT,
    LOADED,
    PART,
    SPLIT,
    body,
    content,
    mirror_of,
    names_in,
    silent,
)
from tests.fakes.http_files import Generated, Plain, Reply, serving

MIRRORED = {name: CHECKPOINT[name] for name in LOADED}


async def test_a_version_of_a_mirror_comes_as_a_folder(tmp_path, shelf_at):
    async with mirror_of(MIRRORED) as mirror:
        source = f"{mirror.url}/llama/v1/"
        path = await shelf_at("").ensure(source, on_progress=silent)
        assert path == str(tmp_path / "cache" / naming.cache_name(source))
        assert names_in(tmp_path / path) == [".llmgw-weights.json", *LOADED]
        assert path.endswith("-v1")


async def test_a_file_that_differs_from_the_mirrors_manifest_is_refused(tmp_path, shelf_at):
    async with mirror_of(MIRRORED, lies={"tokenizer.json"}) as mirror:
        source = f"{mirror.url}/llama/v1/"
        with pytest.raises(Invalid, match=r"tokenizer\.json is not what its source says"):
            await shelf_at("").ensure(source, on_progress=silent)
        assert not (tmp_path / "cache" / naming.cache_name(source)).exists()


async def test_a_file_that_does_not_end_is_left_at_its_promised_size(tmp_path, shelf_at):
    """Else a lying origin would fill the disk: the room for what was promised is there."""
    name, made = next(iter(MIRRORED.items()))
    async with mirror_of(MIRRORED) as mirror:
        answer, endless = mirror.handler, Generated(1 << 40)
        mirror.handler = lambda request: (
            Reply(body=endless, has_length=False)
            if request.path.endswith(name)
            else answer(request)
        )
        source = f"{mirror.url}/llama/v1/"
        with pytest.raises(Invalid, match=f"more than the {made.length} bytes that it should"):
            await shelf_at("").ensure(source, on_progress=silent)
        assert not list((tmp_path / "cache").rglob(f"{name}*"))


async def test_a_list_of_files_that_nests_without_end_is_refused(shelf_at):
    async with serving(lambda _: Reply(body=Plain(b"[" * 100_000))) as origin:
        with pytest.raises(Invalid, match="is no manifest of a mirror"):
            await shelf_at("").ensure(f"{origin.url}/llama/v1/", on_progress=silent)
        with pytest.raises(Invalid, match="does not answer as the hub does"):
            await shelf_at(origin.url).ensure("hf:org/repo", on_progress=silent)


async def test_a_list_of_files_that_does_not_end_is_refused(shelf_at):
    """It is kept in memory, so an endless one would end the agent."""
    async with serving(lambda _: Reply(body=Generated(1 << 40), has_length=False)) as origin:
        with pytest.raises(Invalid, match="does not end after 32 MiB"):
            await shelf_at("").ensure(f"{origin.url}/llama/v1/", on_progress=silent)
        with pytest.raises(Invalid, match="does not end after 32 MiB"):
            await shelf_at(origin.url).ensure("hf:org/repo", on_progress=silent)


async def test_a_folder_without_a_manifest_is_no_version(shelf_at):
    async with mirror_of(MIRRORED, manifest=False) as mirror:
        with pytest.raises(Unknown, match=r"no manifest\.json"):
            await shelf_at("").ensure(f"{mirror.url}/llama/v1/", on_progress=silent)


async def test_a_mirror_that_restarts_in_between_is_gone_on_with(tmp_path, shelf_at):
    files, failures = MIRRORED, [503, 503]
    async with mirror_of(files) as mirror:
        answer = mirror.handler

        def restarting(request):
            refused = failures and "two" not in request.path
            return Reply(failures.pop(), {"Retry-After": "0"}) if refused else answer(request)

        mirror.handler = restarting
        path = await shelf_at("").ensure(f"{mirror.url}/llama/v1/", on_progress=silent)
        assert failures == []
        assert len(names_in(tmp_path / path)) == len(LOADED) + 1


async def test_the_other_parts_of_a_split_model_lie_beside_it(tmp_path, shelf_at):
    files = {name.removeprefix("BF16/"): made for name, made in SPLIT.items()}
    async with mirror_of(files) as mirror:
        source = f"{mirror.url}/llama/v1/big-00001-of-00003.gguf"
        path = await shelf_at("").ensure(source, on_progress=silent)
        assert path.endswith("/big-00001-of-00003.gguf")
        parts = [f"big-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
        folder = tmp_path / "cache" / naming.cache_name(source)
        assert names_in(folder) == [".llmgw-weights.json", *parts]


async def test_a_part_without_a_digest_is_asked_for_once_more_and_not_fetched(tmp_path, shelf_at):
    """What is whole of an interrupted set is kept if its origin says that it is the same."""
    files = {f"big-0000{i}-of-00002.gguf": body(f"b{i}") for i in (1, 2)}
    async with mirror_of(files, manifest=False) as mirror:
        source = f"{mirror.url}/llama/v1/big-00001-of-00002.gguf"
        await shelf_at("").ensure(source, on_progress=silent)
        folder = tmp_path / "cache" / naming.cache_name(source)
        folder.rename(folder.with_name(f"{folder.name}.partial"))
        mirror.requests.clear()
        await shelf_at("").ensure(source, on_progress=silent)
        assert {one.headers["range"] for one in mirror.requests} == {f"bytes={PART}-"}
        assert (folder / "big-00002-of-00002.gguf").read_bytes() == content(body("b2"))


async def test_an_address_may_pin_its_digest(tmp_path, shelf_at):
    async with mirror_of(SPLIT) as mirror:
        address = f"{mirror.url}/llama/v1/small.gguf"
        right = await shelf_at("").ensure(
            f"{address}#sha256={body('small').sha256()}", on_progress=silent
        )
        assert right.endswith("-small.gguf")
        with pytest.raises(Invalid, match="000000000000 is published"):
            await shelf_at("").ensure(f"{address}#sha256={'0' * 64}", on_progress=silent)
        assert all("sha256" not in one.path + one.query for one in mirror.requests)


async def test_a_digest_in_the_answer_is_compared(shelf_at):
    wrong = "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"
    headers = {"ETag": '"1"', "Repr-Digest": wrong}
    async with serving(lambda request: Reply(headers=dict(headers), body=Plain(b"GGUF"))) as files:
        with pytest.raises(Invalid, match="is not what its source says"):
            await shelf_at("").ensure(f"{files.url}/x.gguf", on_progress=silent)
