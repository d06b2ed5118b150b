"""Sources are looked for where they point to, with bounds and without a step elsewhere."""

from __future__ import annotations

import socket
import time

import pytest

from llmgw.control.catalog.source_check import SourceCheck
from tests.fakes.engines import free_port
from tests.fakes.http_files import Generated, Plain, Reply, serving
from tests.fakes.hub import Repository, serving_hub

WEIGHTS = Generated(10_000)


def check(**knobs):
    return SourceCheck(hub_url="http://127.0.0.1:1", **knobs)


async def ask(reply, *, path="/m.gguf", **knobs):
    async with serving(reply if callable(reply) else lambda _: reply) as server:
        return await check(**knobs).check(server.url + path), server


async def test_a_file_that_is_there_is_good_and_its_size_is_known():
    found, server = await ask(Reply(200, body=WEIGHTS))
    assert (found.is_good, found.size_bytes, found.detail) == (True, 10_000, "")
    assert [r.method for r in server.requests] == ["HEAD"]


async def test_where_head_is_refused_one_byte_is_asked_for():
    def reply(request):
        return Reply(405) if request.method == "HEAD" else Reply(200, body=WEIGHTS)

    found, server = await ask(reply)
    assert (found.is_good, found.size_bytes) == (True, 10_000)
    assert [r.headers.get("range") for r in server.requests] == [None, "bytes=0-0"]


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (404, "answers 404: there is no such file"),
        (401, "answers 401: it needs access"),
        (403, "answers 403: it needs access"),
        (503, "answers 503: it cannot be fetched now"),
    ],
)
async def test_a_refusal_is_told_in_words(status, says):
    found, _ = await ask(Reply(status))
    assert found.is_good is False
    assert says in found.detail


async def test_a_page_is_no_weights():
    found, _ = await ask(Reply(200, {"Content-Type": "text/html; charset=utf-8"}, Plain(b"<p>")))
    assert (found.is_good, "is a page, not weights" in found.detail) == (False, True)


async def test_a_dead_mirror_is_unreachable_from_the_control_plane():
    found = await check().check(f"http://127.0.0.1:{free_port()}/m.gguf")
    assert found.is_good is False
    assert "unreachable from the control plane" in found.detail


async def test_a_mirror_that_never_answers_costs_a_bounded_time():
    begun_at = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = await check(total_s=0.2).check(f"http://127.0.0.1:{silent.getsockname()[1]}/m")
    assert (found.is_good, "no answer within 0.2 s" in found.detail) == (False, True)
    assert time.monotonic() - begun_at < 10


async def test_a_way_on_the_same_host_is_followed_and_one_to_another_host_is_not():
    async with serving(lambda _: Reply(200, body=WEIGHTS)) as other:

        def reply(request):
            if request.path == "/elsewhere":
                return Reply(302, {"Location": f"{other.url}/secret"})
            return Reply(302, {"Location": "/m"}) if request.path != "/m" else Reply(body=WEIGHTS)

        found, _ = await ask(reply, path="/a")
        assert (found.is_good, found.size_bytes) == (True, 10_000)
        found, _ = await ask(reply, path="/elsewhere")
        assert found.is_good
        assert "sends on to 127.0.0.1, which was not asked" in found.detail
        assert other.requests == []


async def test_a_way_without_end_is_no_source():
    found, server = await ask(Reply(302, {"Location": "/m.gguf"}))
    assert found.is_good is False
    assert len(server.requests) == 5


async def test_a_version_on_a_mirror_is_looked_for_by_its_manifest():
    found, server = await ask(Reply(200, body=Plain(b"{}")), path="/v1/")
    assert (found.is_good, found.size_bytes) == (True, None)
    assert [r.path for r in server.requests] == ["/v1/manifest.json"]


@pytest.mark.parametrize(
    ("source", "says"),
    [("/models/m.gguf", "path of the nodes"), ("org/model", "the engine resolves")],
)
async def test_what_only_nodes_or_engines_can_find_passes_with_a_note(source, says):
    found = await check().check(source)
    assert found.is_good is None
    assert says in found.detail


@pytest.mark.parametrize(
    "source",
    [
        "hf:org",
        "http:///x",
        "hf:org/m@:x",
        "http://127.0.0.1:99999/x",
        "http://127.0.0.1:-5/x",
        "http://[::1/x",
        "http://127.0.0.1:1/\ud800",
        f"http://{'a' * 300}/x",
        "http://a b/x",
        "http://%/x",
    ],
    ids=ascii,
)
async def test_a_source_that_is_none_is_told(source):
    found = await check().check(source)
    assert (found.is_good, bool(found.detail)) == (False, True)


async def test_no_secret_of_an_address_is_repeated():
    found, server = await ask(Reply(404), path="/m.gguf?token=hunter2")
    assert server.requests[0].query == "token=hunter2"
    assert "hunter2" not in found.detail


@pytest.fixture
async def hub():
    repositories = {
        "org/open": Repository({"m.gguf": WEIGHTS, "config.json": Plain(b"{}")}),
        "org/closed": Repository({"m.gguf": WEIGHTS}, is_gated=True, readers=("hf_reader",)),
    }
    async with serving_hub(repositories) as made:
        yield made


@pytest.mark.parametrize(
    ("source", "is_good", "says"),
    [
        ("hf:org/open/m.gguf", True, "sends on"),
        ("hf:org/open/config.json", True, ""),
        ("hf:org/open", True, ""),
        ("hf:org/open@main:*.gguf", True, ""),
        ("hf:org/open/nosuch.gguf", False, "no such file in the repository"),
        ("hf:org/nosuch", False, "no such repository, or it is private"),
        ("hf:org/open@v9", False, "no such branch, tag or commit"),
        ("hf:org/closed/m.gguf", False, "licence must be accepted"),
    ],
)
async def test_what_the_hub_says_is_told(hub, source, is_good, says):
    found = await SourceCheck(hub_url=hub.url).check(source)
    assert (found.is_good, says in found.detail) == (is_good, True)
    assert hub.store.requests == []


async def test_the_hubs_token_opens_what_is_closed_and_the_size_is_known(hub):
    found = await SourceCheck(hub_url=hub.url, hub_token=lambda: "hf_reader").check(
        "hf:org/closed/m.gguf"
    )
    assert (found.is_good, found.size_bytes) == (True, 10_000)


async def test_the_hubs_token_is_sent_to_nobody_else(hub):
    async with serving(lambda _: Reply(200, body=WEIGHTS)) as other:
        await SourceCheck(hub_url=hub.url, hub_token=lambda: "hf_x").check(f"{other.url}/m.gguf")
        await SourceCheck(hub_url="http://hub.invalid", hub_token=lambda: "hf_x").check(
            "hf:org/open"
        )
        assert all("authorization" not in r.headers for r in other.requests)
    assert SourceCheck(hub_url="http://hub.invalid", hub_token=lambda: "hf_x")._hub_headers() == {}
