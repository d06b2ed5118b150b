"""The head of an engine's answer says how the answer will end, or is refused."""

from __future__ import annotations

import pytest

from llmgw.gateway.chunked_framing import ChunkedFraming
from llmgw.gateway.framing import CloseFraming, LengthFraming
from llmgw.gateway.responses import HeadBroken, Heads, ResponseHead


def read(*lines, first="HTTP/1.1 200 OK"):
    return ResponseHead("\r\n".join([first, *lines, "", ""]).encode())


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["Content-Length: 5"], LengthFraming),
        (["Transfer-Encoding: chunked"], ChunkedFraming),
        (["Transfer-Encoding:  Chunked "], ChunkedFraming),
        ([], CloseFraming),
    ],
)
def test_framing_follows_from_the_fields(lines, kind):
    assert isinstance(read(*lines).framing(keeps_payload=False), kind)


@pytest.mark.parametrize("status", [204, 304])
def test_answer_without_a_body_is_complete_at_its_head(status):
    head = read("Content-Length: 5", first=f"HTTP/1.1 {status} X")
    assert head.length_bytes == 0


@pytest.mark.parametrize(
    ("first", "lines", "keeps_open"),
    [
        ("HTTP/1.1 200 OK", ["Content-Length: 0"], True),
        ("HTTP/1.1 200 OK", ["Content-Length: 0", "Connection: close"], False),
        ("HTTP/1.1 200 OK", ["Content-Length: 0", "Connection: x, Close"], False),
        ("HTTP/1.1 200 OK", ["Transfer-Encoding: chunked"], True),
        ("HTTP/1.1 200 OK", [], False),
        ("HTTP/1.0 200 OK", ["Content-Length: 0"], False),
        ("HTTP/1.0 200 OK", ["Content-Length: 0", "Connection: keep-alive"], True),
    ],
)
def test_connection_is_kept_only_where_both_ends_know_the_end(first, lines, keeps_open):
    assert read(*lines, first=first).keeps_open == keeps_open


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 1", "Content-Length: 2"],
        ["Content-Length: 1", "Transfer-Encoding: chunked"],
        ["Content-Length: -1"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: gzip"],
        ["Transfer-Encoding: gzip", "Transfer-Encoding: chunked"],
        ["Bad Name: 1"],
        ["X: \x01"],
    ],
    ids=", ".join,
)
def test_head_that_could_be_read_in_two_ways_is_refused(lines):
    with pytest.raises(HeadBroken):
        read(*lines)


@pytest.mark.parametrize(
    "first", ["HTTP/2 200", "200 OK", "HTTP/1.1 abc OK", "SSH-2.0-x", "\x16\x03"]
)
def test_what_is_no_head_is_refused(first):
    with pytest.raises(HeadBroken):
        read(first=first)


def test_switch_to_another_protocol_that_nobody_asked_for_is_refused():
    with pytest.raises(HeadBroken):
        read("Upgrade: h2c", "Connection: upgrade", first="HTTP/1.1 101 Switching Protocols")


@pytest.mark.parametrize(
    ("kind", "is_events"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream; charset=utf-8", True),
        ("application/json", False),
        ("text/html", False),
    ],
)
def test_event_stream_is_known_by_its_type(kind, is_events):
    assert read(f"Content-Type: {kind}").is_events == is_events


def test_head_that_came_before_is_not_read_again():
    heads = Heads()
    first = heads.read(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n")
    assert heads.read(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n") is first
    assert heads.read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n").length_bytes == 2


def test_heads_are_remembered_within_a_bound():
    heads = Heads()
    for length in range(1000):
        heads.read(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
    heads.read(b"HTTP/1.1 200 OK\r\nX: %b\r\n\r\n" % (b"x" * 10_000))
    assert len(heads._known) <= 64
    assert all(len(head) <= 2048 for head in heads._known)


def test_broken_head_is_refused_each_time():
    heads = Heads()
    for _ in range(2):
        with pytest.raises(HeadBroken):
            heads.read(b"nonsense\r\n\r\n")
