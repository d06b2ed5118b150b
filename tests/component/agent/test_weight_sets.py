"""Models of several files from a hub: whole or not at all."""

from __future__ import annotations

import hashlib
import json

import pytest

from llmgw.agent.discovery import weights_scan
from llmgw.agent.weights.retrying import Retries
from llmgw.domain import weights as naming
from llmgw.errors import Denied, Invalid, Unknown, Unreachable
from tests.fakes.checkpoints import (
    CHECKPOINT,
    LOADED,
    PART,
    SPLIT,
    body,
    content,
    hub_of,
    names_in,
    silent,
)
from tests.fakes.http_files import Plain, Reply, serving
from tests.fakes.hub import COMMIT, serving_hub


async def test_a_repository_comes_as_a_folder_with_what_an_engine_loads(tmp_path, shelf_at):
    async with serving_hub(hub_of(CHECKPOINT)) as hub:
        path = await shelf_at(hub.url).ensure("hf:org/model", on_progress=silent)
        folder = tmp_path / "cache" / naming.cache_name("hf:org/model")
        assert path == str(folder)
        assert names_in(folder) == [".llmgw-weights.json", *LOADED]
        for name in LOADED:
            assert (folder / name).read_bytes() == content(CHECKPOINT[name])
        note = json.loads((folder / ".llmgw-weights.json").read_text())
        assert note["revision"] == COMMIT
        assert [one.name for one in folder.parent.iterdir()] == [folder.name]


async def test_a_repository_that_is_here_is_used_without_the_network(shelf_at):
    async with serving_hub(hub_of(CHECKPOINT)) as hub:
        first = await shelf_at(hub.url).ensure("hf:org/model", on_progress=silent)
    again = await shelf_at("http://127.0.0.1:9").ensure("hf:org/model", on_progress=silent)
    assert again == first


async def test_hub_files_are_asked_for_by_the_commit_that_the_revision_is_at(shelf_at):
    async with serving_hub(hub_of(SPLIT, revisions=("main", "v2", "refs/pr/1"))) as hub:
        shelf = shelf_at(hub.url)
        await shelf.ensure("hf:org/model/small.gguf", on_progress=silent)
        await shelf.ensure("hf:org/model/small.gguf@v2", on_progress=silent)
        await shelf.ensure("hf:org/model@refs/pr/1:small*", on_progress=silent)
        asked = [one.path for one in hub.front.asked("/resolve/")]
        assert asked == [f"/org/model/resolve/{COMMIT}/small.gguf"] * 3
        asked = [one.path.rpartition("/revision/")[2] for one in hub.front.asked("/revision/")]
        assert asked == ["main", "v2", "refs/pr/1"]


async def test_a_file_of_the_hub_lies_in_the_cache_by_itself(tmp_path, shelf_at):
    async with serving_hub(hub_of(SPLIT)) as hub:
        path = await shelf_at(hub.url).ensure("hf:org/model/small.gguf", on_progress=silent)
        assert path == str(tmp_path / "cache" / naming.cache_name("hf:org/model/small.gguf"))
        assert weights_scan.scan([str(tmp_path / "cache")])[0].path == path


@pytest.mark.parametrize(
    "source",
    ["hf:org/model/BF16/big-00001-of-00003.gguf", "hf:org/model:BF16/*", "hf:org/model:big-*"],
)
async def test_one_part_of_a_split_model_stands_for_all(tmp_path, shelf_at, source):
    async with serving_hub(hub_of(SPLIT)) as hub:
        path = await shelf_at(hub.url).ensure(source, on_progress=silent)
        folder = tmp_path / "cache" / naming.cache_name(source)
        assert path == str(folder / "big-00001-of-00003.gguf")
        assert len(names_in(folder)) == 4
        [found] = weights_scan.scan([str(tmp_path / "cache")])
        assert naming.holds(source, [found.path])


async def test_a_long_repository_is_listed_page_by_page(tmp_path, shelf_at):
    async with serving_hub(hub_of(CHECKPOINT), page_entries=2) as hub:
        path = await shelf_at(hub.url).ensure("hf:org/model", on_progress=silent)
        assert len(hub.front.asked("/tree/")) > 4
        assert "tokenizer.json" in names_in(tmp_path / path)


async def test_progress_is_one_figure_that_rises_over_the_whole_set(shelf_at, clock):
    told = []
    async with serving_hub(hub_of(CHECKPOINT)) as hub:
        shelf = shelf_at(hub.url, clock=clock)

        def hear(progress):
            told.append(progress)
            clock.advance(2.0)

        await shelf.ensure("hf:org/model", on_progress=hear)
    total = sum(CHECKPOINT[name].length for name in LOADED)
    done = [one.done_bytes for one in told]
    assert done == sorted(done)
    assert done[-1] == total
    assert len(done) > 5
    assert {one.total_bytes for one in told} == {total}
    assert {one.source for one in told} == {"hf:org/model"}


async def test_rate_and_time_that_is_left_are_told_of_the_whole_set(shelf_at, clock):
    async with serving_hub(hub_of(CHECKPOINT)) as hub:
        shelf = shelf_at(hub.url, clock=clock)
        seen = []

        def hear(progress):
            clock.advance(2.0)
            seen.extend(shelf.status())

        await shelf.ensure("hf:org/model", on_progress=hear)
    rated = [status for status in seen if status.bytes_per_s]
    assert seen[0].bytes_per_s is None
    assert rated[-1].total_bytes == sum(CHECKPOINT[name].length for name in LOADED)
    for status in rated:
        left = status.total_bytes - status.done_bytes
        assert status.eta_s == pytest.approx(left / status.bytes_per_s)


async def test_a_cut_set_is_nowhere_under_its_name_and_goes_on_from_what_came(tmp_path, shelf_at):
    files = {**CHECKPOINT}
    second = "model-00002-of-00002.safetensors"
    async with serving_hub(hub_of(files), cuts={second: [100_000] * 3}) as hub:
        with pytest.raises(Unreachable):
            await shelf_at(hub.url, retries=Retries(tries=1)).ensure(
                "hf:org/model", on_progress=silent
            )
        folder = tmp_path / "cache" / naming.cache_name("hf:org/model")
        assert not folder.exists()
        assert weights_scan.scan([str(tmp_path / "cache")]) == ()
        came = set(names_in(folder.with_name(f"{folder.name}.partial")))
        asked = len(hub.store.requests)
        await shelf_at(hub.url).ensure("hf:org/model", on_progress=silent)
        assert names_in(folder) == [".llmgw-weights.json", *LOADED]
        assert (folder / second).read_bytes() == content(files[second])
        again = [one.path.rpartition("//")[2] for one in hub.store.requests[asked:]]
        assert not came.intersection(again)
        assert "range" in hub.store.asked(second)[-1].headers


async def test_a_killed_fetch_of_a_set_keeps_what_its_digest_vouches_for(tmp_path, shelf_at):
    """The note is as it was after two files; others are read and compared; a damaged one comes."""
    async with serving_hub(hub_of(CHECKPOINT)) as hub:
        await shelf_at(hub.url).ensure("hf:org/model", on_progress=silent)
        folder = tmp_path / "cache" / naming.cache_name("hf:org/model")
        partial = folder.with_name(f"{folder.name}.partial")
        folder.rename(partial)
        note = json.loads((partial / ".llmgw-weights.json").read_text())
        kept = ["config.json", "model-00001-of-00002.safetensors"]
        note["files"] = {name: note["files"][name] for name in kept}
        (partial / ".llmgw-weights.json").write_text(json.dumps(note))
        (partial / "left-over.safetensors").write_text("of an older revision")
        (partial / "tokenizer.json").write_bytes(b"y" * PART)
        hub.front.requests.clear()
        await shelf_at(hub.url).ensure("hf:org/model", on_progress=silent)
        asked = {one.path.partition(COMMIT + "/")[2] for one in hub.front.asked("/resolve/")}
        assert asked == {"tokenizer.json"}
        assert names_in(folder) == [".llmgw-weights.json", *LOADED]


async def test_a_wrong_digest_of_the_hub_is_refused_and_nothing_stays(tmp_path, shelf_at):
    first = "model-00001-of-00002.safetensors"
    lie = hashlib.sha256(b"something else").hexdigest()
    async with serving_hub(hub_of(CHECKPOINT, lies={first: lie})) as hub:
        with pytest.raises(Invalid, match=lie[:12]) as failed:
            await shelf_at(hub.url).ensure("hf:org/model", on_progress=silent)
        assert body("one").sha256()[:12] in failed.value.message
        folder = tmp_path / "cache" / naming.cache_name("hf:org/model")
        assert not folder.exists()
        assert first not in names_in(folder.with_name(f"{folder.name}.partial"))


async def test_a_small_file_is_compared_with_its_git_id(shelf_at):
    async with serving_hub(hub_of(CHECKPOINT)) as hub:
        answer = hub.answer

        def damaged(request):
            reply = answer(request)
            if request.path.endswith("/config.json") and "/resolve/" in request.path:
                reply.body = Plain(reply.body.content.swapcase())
            return reply

        hub.front.handler = damaged
        with pytest.raises(Invalid, match=r"config\.json is not what its source says"):
            await shelf_at(hub.url).ensure("hf:org/model", on_progress=silent)


async def test_a_set_that_was_glued_wrongly_comes_once_more_from_its_beginning(tmp_path, shelf_at):
    async with serving_hub(hub_of(SPLIT)) as hub:
        source = "hf:org/model/small.gguf"
        part = tmp_path / "cache" / f"{naming.cache_name(source)}.part"
        part.parent.mkdir()
        part.write_bytes(b"x" * 1000)
        digest = f"sha256:{body('small').sha256()}"
        part.with_name(f"{part.name}.json").write_text(json.dumps({"digest": digest}))
        path = await shelf_at(hub.url).ensure(source, on_progress=silent)
        assert hub.store.requests[0].headers["range"] == "bytes=1000-"
        assert len(hub.store.requests) == 2
        assert (tmp_path / path).read_bytes() == content(body("small"))


async def test_a_part_of_another_commit_is_not_gone_on_with(tmp_path, shelf_at):
    async with serving_hub(hub_of(SPLIT)) as hub:
        source = "hf:org/model/small.gguf"
        part = tmp_path / "cache" / f"{naming.cache_name(source)}.part"
        part.parent.mkdir()
        part.write_bytes(b"x" * 1000)
        part.with_name(f"{part.name}.json").write_text(
            json.dumps({"digest": "sha256:" + "0" * 64, "validator": '"store-v1"'})
        )
        await shelf_at(hub.url).ensure(source, on_progress=silent)
        assert ["range" in one.headers for one in hub.store.requests] == [False]


async def test_the_token_goes_to_the_hub_and_never_to_its_store(shelf_at, caplog):
    caplog.set_level("DEBUG")
    async with serving_hub(hub_of(SPLIT, is_gated=True, readers=("hf_canary",))) as hub:
        shelf = shelf_at(hub.url, token="hf_canary")
        await shelf.ensure("hf:org/model/small.gguf", on_progress=silent)
        sent = {one.headers.get("authorization") for one in hub.front.requests}
        assert sent == {"Bearer hf_canary"}
        assert all("authorization" not in one.headers for one in hub.store.requests)
    assert "hf_canary" not in caplog.text


async def test_the_token_never_crosses_a_network_in_clear(shelf_at):
    with pytest.raises(Invalid, match="https"):
        await shelf_at("http://hub.example", token="hf_canary").ensure(
            "hf:org/model", on_progress=silent
        )


async def test_the_token_is_not_sent_to_a_plain_address(shelf_at):
    async with serving(lambda request: Reply(body=Plain(b"GGUF"))) as files:
        shelf = shelf_at("https://hub.example", token="hf_canary")
        await shelf.ensure(f"{files.url}/x.gguf", on_progress=silent)
        assert "authorization" not in files.requests[0].headers


@pytest.mark.parametrize("token", ["", "hf_other"])
async def test_a_gated_repository_says_that_its_licence_must_be_accepted(shelf_at, token):
    async with serving_hub(hub_of(SPLIT, is_gated=True)) as hub:
        with pytest.raises(Denied, match=r"licence.*weights\.hub_token") as failed:
            await shelf_at(hub.url, token=token).ensure(
                "hf:org/model/small.gguf", on_progress=silent
            )
        assert "hf_other" not in failed.value.message


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        pytest.param("hf:org/absent/x.gguf", Unknown, "or it is private", id="repository"),
        pytest.param("hf:org/model/x.gguf@v9", Unknown, "no such branch", id="revision"),
        pytest.param("hf:org/model/other.gguf", Unknown, "it has BF16/big", id="file"),
        pytest.param("hf:org/model:*Q4*", Unknown, r"it has .*small\.gguf", id="pattern"),
        pytest.param("hf:org/model", Invalid, r"holds 2 models of .*small\.gguf", id="choice"),
    ],
)
async def test_what_the_hub_does_not_have_is_said_with_what_it_has(shelf_at, source, error, words):
    async with serving_hub(hub_of(SPLIT)) as hub:
        with pytest.raises(error, match=words):
            await shelf_at(hub.url).ensure(source, on_progress=silent)


async def test_a_split_model_that_lacks_a_part_is_refused_before_it_is_fetched(shelf_at):
    files = {name: made for name, made in SPLIT.items() if "00002" not in name}
    async with serving_hub(hub_of(files)) as hub:
        with pytest.raises(Invalid, match="lacks BF16/big-00002-of-00003"):
            await shelf_at(hub.url).ensure("hf:org/model:BF16/*", on_progress=silent)
        assert hub.store.requests == []


async def test_an_index_that_names_an_absent_part_fails_the_set(tmp_path, shelf_at):
    files = {n: b for n, b in CHECKPOINT.items() if n != "model-00002-of-00002.safetensors"}
    async with serving_hub(hub_of(files)) as hub:
        with pytest.raises(Invalid, match=r"index\.json names model-00002"):
            await shelf_at(hub.url).ensure("hf:org/model", on_progress=silent)
        assert not (tmp_path / "cache" / naming.cache_name("hf:org/model")).exists()


async def test_a_file_name_that_leads_out_of_the_folder_is_refused(tmp_path, shelf_at):
    async with serving_hub(hub_of({"a/../../evil.gguf": body("evil")})) as hub:
        with pytest.raises(Invalid, match="leads out of"):
            await shelf_at(hub.url).ensure("hf:org/model:*", on_progress=silent)
        assert list(tmp_path.rglob("evil*")) == []


async def test_an_old_signed_address_is_asked_for_anew(shelf_at):
    async with serving_hub(hub_of(SPLIT)) as hub:
        issued = []

        def stored(request):
            issued.append(request.query)
            return Reply(403) if len(issued) == 1 else hub.stored(request)

        hub.store.handler = stored
        await shelf_at(hub.url).ensure("hf:org/model/small.gguf", on_progress=silent)
        assert len(set(issued)) == 2


async def test_a_ration_of_the_hub_that_is_used_up_is_waited_for(tmp_path, shelf_at):
    async with serving_hub(hub_of(CHECKPOINT)) as hub:
        answer, rations = hub.answer, [0, 0]

        def rationed(request):
            if request.path.startswith("/api/") and rations and len(hub.front.requests) != 2:
                rations.pop()
                return Reply(429, {"RateLimit": '"api";r=0;t=0'})
            return answer(request)

        hub.front.handler = rationed
        one_try = shelf_at(hub.url, retries=Retries(tries=1))
        path = await one_try.ensure("hf:org/model", on_progress=silent)
        assert rations == []
        assert len(names_in(tmp_path / path)) == len(LOADED) + 1
