"""The hub of our tests answers in the shapes of the real one, and we read both alike."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from llmgw.agent.weights import digests, http_failures
from llmgw.agent.weights import hub as hubs
from llmgw.errors import Denied, Unknown
from tests.fakes.http_files import Generated, Plain, Reply, serving
from tests.fakes.hub import COMMIT, Repository, serving_hub

RECORDED = json.loads(
    (Path(__file__).parents[2] / "data" / "hub" / "answers.json").read_text(encoding="utf-8")
)
LARGE = "be07e048e1e599ad46341c8d2a135645097a538221678b7acdd1b1919c6e1b21"
OURS = {
    "org/model": Repository(
        {"ggml-tiny.bin": Generated(9000), ".gitkeep": Plain(b""), "coreml/a.txt": Plain(b"a")}
    ),
    "org/gated": Repository({"config.json": Plain(b"{}")}, is_gated=True),
}
ASKED = {
    "resolve_large": "/org/model/resolve/main/ggml-tiny.bin",
    "resolve_gated": "/org/gated/resolve/main/config.json",
    "revision_unknown": "/api/models/org/model/revision/v9",
    "repository_unknown": "/api/models/org/absent/revision/main",
    "entry_unknown": "/org/model/resolve/main/absent.bin",
}


def recorded_hub(request):
    """The real hub's tree, as far as it was recorded."""
    if "/revision/" in request.path:
        return Reply(body=Plain(json.dumps({"sha": COMMIT}).encode()))
    return Reply(body=Plain(json.dumps(RECORDED["tree"]).encode()))


async def test_a_tree_of_the_real_hub_is_read_with_its_digests():
    async with serving(recorded_hub) as real, httpx.AsyncClient() as client:
        place = hubs.at(real.url, token="")
        found = await hubs.look_up("hf:ggerganov/whisper.cpp:*", client=client, hub=place)
    assert found.revision == COMMIT
    assert {(file.path, file.size_bytes, str(file.digest)) for file in found.files} == {
        ("ggml-tiny.bin", 77691713, f"sha256:{LARGE}"),
        (".gitkeep", 0, "git:e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
    }
    assert found.files[-1].url == (
        f"{real.url}/ggerganov/whisper.cpp/resolve/{COMMIT}/ggml-tiny.bin"
    )


async def test_our_tree_has_the_keys_of_the_real_one():
    async with serving_hub(OURS) as hub, httpx.AsyncClient() as client:
        answer = await client.get(f"{hub.url}/api/models/org/model/tree/main?recursive=true")
    ours = {entry["path"]: entry for entry in answer.json()}
    for entry in RECORDED["tree"]:
        assert set(ours[entry["path"]]) == set(entry)
    assert set(ours["ggml-tiny.bin"]["lfs"]) == set(RECORDED["tree"][0]["lfs"])


@pytest.mark.parametrize("name", list(ASKED))
async def test_our_answers_have_status_and_headers_of_the_real_ones(name):
    async with serving_hub(OURS) as hub, httpx.AsyncClient() as client:
        answer = await client.get(f"{hub.url}{ASKED[name]}")
    assert answer.status_code == RECORDED[name]["status"]
    for header, value in RECORDED[name]["headers"].items():
        assert header in answer.headers
        if header == "x-error-code":
            assert answer.headers[header] == value


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("resolve_gated", Denied),
        ("revision_unknown", Unknown),
        ("repository_unknown", Unknown),
        ("entry_unknown", Unknown),
    ],
)
def test_a_refusal_of_the_real_hub_is_understood(name, error):
    answer = httpx.Response(RECORDED[name]["status"], headers=RECORDED[name]["headers"])
    assert type(http_failures.refused(answer, url="https://huggingface.co/x")) is error


def test_the_digest_of_a_large_file_is_told_on_the_way_to_it():
    told = digests.linked(httpx.Headers(RECORDED["resolve_large"]["headers"]))
    assert told == digests.sha256(LARGE)
