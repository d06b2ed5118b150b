"""Pages and questions about keys go to the control plane of the host, and nothing else does."""

from __future__ import annotations

import dataclasses
import io

import pytest

from llmgw.gateway import house_paths
from llmgw.gateway.doors import Doors
from llmgw.gateway.house import House
from llmgw.gateway.request_log import RequestLog
from tests.fakes.gateway_stage import ASK, ON_ONE_LOOP
from tests.fakes.house import FakeHouse
from tests.fakes.key_ring import KeyRing
from tests.fakes.principals import principal
from tests.fakes.raw_client import End, get, post

pytestmark = ON_ONE_LOOP

PAGE = (
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n"
    b"x-llmgw-secret: no\r\nserver: x\r\nconnection: close\r\n\r\nhello"
)
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture
async def house(stage, tmp_path):
    """A control plane beside the gateway of a test, which asks for keys."""
    made = FakeHouse(tmp_path / "pages.sock")
    made.answer = PAGE
    await made.start()
    ring = KeyRing()
    ring.known_now["sk-1"] = principal("k-1")
    stage.doors = dataclasses.replace(ring.doors(), house=House(made.path))
    yield made
    await made.close()


def fields(head):
    first, *lines = head.strip().split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines)


async def test_page_is_passed_on_and_back_with_each_of_its_cookies(stage, house):
    client = await stage.send(get("/login?next=%2F&a=b"))
    answer = await client.answer()
    assert (answer.status, bytes(answer.body)) == (200, b"hello")
    assert [value for name, value in answer.fields if name == "set-cookie"] == ["a=1", "b=2"]
    assert {"x-llmgw-secret", "server"}.isdisjoint(name for name, _ in answer.fields)
    first, _ = fields(house.heads[0])
    assert first == "GET /login?next=%2F&a=b HTTP/1.1"
    client.send(get("/login"))
    assert (await client.answer()).status == 200, "the connection goes on"


async def test_what_a_client_says_of_itself_is_not_believed(stage, house):
    lies = (
        "x-llmgw-principal: k-admin",
        "X-LLMGW-Peer: 10.9.9.9",
        "x-llmgw-actor: root",
        "X-Forwarded-For: 10.9.9.9",
        "Forwarded: for=10.9.9.9",
        "X-Real-IP: 10.9.9.9",
        "Authorization: Bearer sk-1",
        "x-api-key: sk-1",
        "Cookie: a=1; b=2",
        "Origin: http://gateway",
    )
    await (await stage.send(post(b"csrf=x", *lies, path="/logout"))).answer()
    _, told = fields(house.heads[0])
    assert told.pop("x-request-id").startswith("req-")
    assert told == {
        "host": "gateway",
        "cookie": "a=1; b=2",
        "origin": "http://gateway",
        "connection": "close",
        "content-length": "6",
        "x-llmgw-peer": "127.0.0.1",
    }
    assert house.bodies == [b"csrf=x"]


@pytest.mark.parametrize("path", sorted(house_paths.KEYED), ids=bytes.decode)
async def test_owner_of_a_key_is_named_and_nobody_else_gets_there(stage, house, path):
    path = path.decode()
    for wrong in ((), ("Authorization: Bearer wrong",), ("x-llmgw-principal: k-1",)):
        assert (await (await stage.send(get(path, *wrong))).answer()).status == 401
    assert house.heads == []
    await (await stage.send(get(path, "Authorization: Bearer sk-1"))).answer()
    assert fields(house.heads[0])[1]["x-llmgw-principal"] == "k-1"


OPEN = [
    *sorted(path.decode() for path in house_paths.OPEN),
    "/claim/abc-_9",
    "/profile/keys/key-abc/revoke",
]


async def test_pages_ask_for_no_key(stage, house):
    for path in OPEN:
        assert (await (await stage.send(get(path))).answer()).status == 200, path
    assert [fields(head)[0].split()[1] for head in house.heads] == OPEN
    assert all("x-llmgw-principal" not in head for head in house.heads)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/status",
        "/docs",
        "/login/",
        "/loginx",
        "/claim",
        "/claim/",
        "/claim/a/b",
        "/claim/a%20b",
        "/profile/keys/a/b/revoke",
        "/profile/keys//revoke",
        "/profile/../api/v1/users",
        "/me/x",
    ],
)
async def test_nothing_else_reaches_the_control_plane(stage, house, path):
    for key in ((), ("Authorization: Bearer sk-1",)):
        status = (await (await stage.send(get(path, *key))).answer()).status
        assert status in ({401, 400} if not key else {404, 400})
    assert house.heads == []


async def test_without_a_control_plane_there_are_no_pages(stage):
    stage.doors = Doors()
    await stage.engine()
    for path in ("/login", "/me", "/claim/x"):
        assert (await (await stage.send(get(path))).answer()).status == 404


async def test_control_plane_that_is_away_is_said_at_once_and_models_are_served(stage, house):
    await stage.engine()
    await house.close()
    await house.start()
    house.path.unlink()
    answer = await (await stage.send(get("/login"))).answer()
    assert (answer.status, answer.code) == (503, "house_away")
    assert answer["retry-after"] == "5"
    assert (await stage.ask(ASK, "Authorization: Bearer sk-1")).status == 200


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno field\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
    ],
    ids=str,
)
async def test_what_is_no_answer_is_not_passed_on(stage, house, answer):
    house.answer = answer
    assert (await (await stage.send(get("/login"))).answer()).code == "house_away"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello",
        CHUNKED + b"5\r\nhello\r\n",
    ],
    ids=["length", "chunks"],
)
async def test_answer_that_breaks_off_does_not_look_whole(stage, house, answer):
    house.answer = answer
    client = await stage.send(get("/v1/usage", "Authorization: Bearer sk-1"))
    assert await client.end() is End.RESET


async def test_long_answer_is_passed_on_piece_by_piece(stage, house):
    house.answer = [CHUNKED, *[b"5\r\nhello\r\n"] * 3, b"0\r\n", b"\r\n"]
    client = await stage.send(get("/v1/usage", "Authorization: Bearer sk-1"))
    answer = await client.answer()
    assert (bytes(answer.body), answer["transfer-encoding"]) == (b"hellohellohello", "chunked")


async def test_old_client_hears_nothing_of_chunks(stage, house):
    house.answer = b"HTTP/1.1 200 OK\r\n\r\nhello"
    client = await stage.send(b"GET /login HTTP/1.0\r\nhost: gateway\r\n\r\n")
    answer = await client.answer()
    assert (bytes(answer.body), answer["connection"]) == (b"hello", "close")
    assert fields(house.heads[0])[0] == "GET /login HTTP/1.0"


async def test_head_of_a_page_has_no_body(stage, house):
    house.answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"
    client = await stage.send(b"")
    client.parses = False
    client.send(get("/login", "Connection: close", method="HEAD"))
    await client.end()
    assert fields(house.heads[0])[0] == "HEAD /login HTTP/1.1"
    assert client.raw.endswith(b"connection: close\r\n\r\n")


async def test_large_form_does_not_reach_the_control_plane(stage, house):
    sent = await stage.send(post(b"x" * 65537, path="/login"))
    assert (await sent.answer()).status == 413
    assert house.heads == []


async def test_only_so_many_ask_at_once(stage, house):
    stage.doors = dataclasses.replace(stage.doors, house=House(house.path, most_calls=2))
    house.answer = [CHUNKED, b"5\r\nhello\r\n"]
    house.may_answer.clear()
    waiting = [await stage.send(get("/login")) for _ in range(2)]
    await stage.until(lambda: all(b"hello" in client.raw for client in waiting))
    refused = await (await stage.send(get("/login"))).answer()
    assert (refused.status, refused.code, refused["retry-after"]) == (503, "house_away", "1")
    waiting[0].leave()
    await house.left.wait()
    await stage.until(lambda: stage.doors.house.calls == 1)
    third = await stage.send(get("/login"))
    await stage.until(lambda: b"hello" in third.raw)


async def test_client_that_leaves_is_left_too(stage, house):
    house.answer = [CHUNKED, b"5\r\nhello\r\n"]
    house.may_answer.clear()
    client = await stage.send(get("/v1/usage", "Authorization: Bearer sk-1"))
    await stage.until(lambda: b"hello" in client.raw)
    client.leave()
    await house.left.wait()
    await stage.until(lambda: stage.states)
    assert stage.states == {"cancelled": 1}


async def test_link_to_a_key_is_in_no_log(stage, house):
    written = io.StringIO()
    stage.request_log = RequestLog(stream=written, as_json=False, clock=stage.clock)
    house.answer = b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n"
    for method in ("GET", "POST"):
        await (await stage.send(get("/claim/secret-token", method=method))).answer()
    assert fields(house.heads[0])[0] == "GET /claim/secret-token HTTP/1.1"
    await stage.close()
    assert written.getvalue().count("/claim/-") == 2
    assert "secret-token" not in written.getvalue()
