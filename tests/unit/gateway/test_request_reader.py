"""Requests are read alike however their bytes are cut, within bounds, or refused for good."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.config.carrying import LimitsSettings
from llmgw.gateway.exchange import BodyBudget
from llmgw.gateway.request_reader import RequestReader

ROOMY = LimitsSettings()
SMALL = LimitsSettings(max_body_bytes=1024, max_header_bytes=4096)


def reader(limits=ROOMY, *, budget_bytes=1 << 30):
    return RequestReader(limits=limits, budget=BodyBudget(budget_bytes), now=lambda: 0.0)


def feed(reading, *reads):
    """Feed as a connection does: nothing after a refusal."""
    for read in reads:
        if reading.refusal is None:
            reading.feed(read)
    return reading


def understood(reading):
    """All that is known of what was read."""
    requests = [
        (one.method, one.path, one.headers, one.body, one.is_http10, one.keeps_open)
        for one in reading.complete
    ]
    return requests, reading.refusal, reading.wants_continue, reading.begun is not None


def chunked(body, size):
    pieces = [body[n : n + size] for n in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@st.composite
def requests(draw):
    method = draw(st.sampled_from([b"POST", b"GET", b"DELETE", b"HEAD", b"OPTIONS"]))
    path = draw(st.sampled_from([b"/v1/chat/completions", b"/v1/models?x=y", b"/a%20b"]))
    version = draw(st.sampled_from([b"1.1", b"1.1", b"1.0"]))
    fields = draw(
        st.lists(
            st.sampled_from(
                [
                    b"Accept: */*",
                    b"Accept: text/plain",
                    b"Connection: close",
                    b"Connection: keep-alive",
                    b"Connection: Upgrade",
                    b"Upgrade: h2c",
                    b"X-Empty:",
                    b"X-Blank: \t a b \t",
                ]
            ),
            max_size=4,
        )
    )
    body = draw(st.binary(max_size=60))
    if body and version == b"1.1" and draw(st.booleans()):
        fields.append(b"Transfer-Encoding: chunked")
        sent = chunked(body, draw(st.integers(1, 20)))
    else:
        fields.append(b"Content-Length: %d" % len(body))
        sent = body
    head = b"\r\n".join([b"%b %b HTTP/%b" % (method, path, version), b"Host: h", *fields])
    return head + b"\r\n\r\n" + sent


def cut(stream, cuts):
    edges = [0, *sorted(at % (len(stream) + 1) for at in cuts), len(stream)]
    return [stream[a:b] for a, b in itertools.pairwise(edges) if a < b]


CUTS = st.lists(st.integers(0, 2000), max_size=8)


@settings(max_examples=60)
@given(asked=st.lists(requests(), min_size=1, max_size=3), cuts=CUTS)
def test_requests_are_read_alike_however_their_bytes_are_cut(asked, cuts):
    stream = b"".join(asked)
    whole = understood(feed(reader(), stream))
    assert understood(feed(reader(), *cut(stream, cuts))) == whole
    assert whole[0]


@given(asked=requests(), at=st.integers(0), byte=st.sampled_from(b"\r\n\x00 :;,\xff1"), cuts=CUTS)
def test_damaged_request_is_judged_alike_however_it_is_cut(asked, at, byte, cuts):
    stream = bytearray(asked)
    stream[at % len(stream)] = byte
    stream = bytes(stream)
    whole = understood(feed(reader(), stream))
    assert understood(feed(reader(), *cut(stream, cuts))) == whole


@given(st.binary(max_size=300), CUTS)
def test_any_bytes_are_read_or_refused_and_never_crash(stream, cuts):
    assert understood(feed(reader(), *cut(stream, cuts))) == understood(feed(reader(), stream))


@given(asked=requests())
def test_one_byte_after_the_other_is_enough(asked):
    each = feed(reader(), *[asked[n : n + 1] for n in range(len(asked))])
    assert understood(each) == understood(feed(reader(), asked))


def test_wish_to_upgrade_is_forgotten_with_its_bytes_read_as_a_body():
    head = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
    stream = head + b"Content-Length: 5\r\n\r\nhello" + head + b"Content-Length: 2\r\n\r\nyo"
    for n in range(len(stream)):
        reading = feed(reader(), stream[:n], stream[n:])
        assert reading.refusal is None
        assert [one.body for one in reading.complete] == [b"hello", b"yo"]
        assert all(one.keeps_open for one in reading.complete)
        assert not any(b"upgrade" in one.headers for one in reading.complete)


def test_trailer_of_a_body_changes_nothing_of_the_request():
    head = b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    reading = feed(reader(), head + b"2\r\nhi\r\n0\r\nHost: evil\r\nX-Sum: 9\r\n\r\n")
    [request] = reading.complete
    assert (request.body, request.headers[b"host"]) == (b"hi", b"h")
    assert b"x-sum" not in request.headers


@pytest.mark.parametrize(
    "surplus",
    [
        pytest.param(b"0\r\n" + b"X-Sum: 9\r\n" * 100_000, id="one field again and again"),
        pytest.param(b"0\r\n" + b"".join(b"X%d: 9\r\n" % n for n in range(100_000)), id="fields"),
        pytest.param(b"0\r\nX: " + b"y" * 1_000_000, id="one field without an end"),
        pytest.param(b"1;" + b"y" * 1_000_000, id="one extension without an end"),
        pytest.param(b"1;%b\r\nx\r\n" % (b"y" * 200) * 5000, id="extensions"),
    ],
)
def test_what_a_body_carries_beside_itself_is_bounded_and_not_kept(surplus):
    """Whatever its own length may be: such fields were joined, each time all of them anew."""
    head = b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    reading = feed(reader(), head + b"2\r\nhi\r\n")
    reads = [surplus[n : n + 16_384] for n in range(0, len(surplus), 16_384)]
    tracemalloc.start()
    feed(reading, *reads)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reading.refusal.status == 413
    assert most_bytes < 300_000


def test_long_body_in_small_chunks_is_read():
    head = b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"x" * 1_000_000
    sent = chunked(body, 16)
    reading = feed(reader(), head, *[sent[n : n + 16_384] for n in range(0, len(sent), 16_384)])
    assert [one.body for one in reading.complete] == [body]


@pytest.mark.parametrize("piece", [1, 7, 4096])
def test_head_is_bounded_however_it_comes(piece):
    endless = b"GET / HTTP/1.1\r\nX: " + b"a" * 8192
    reading = feed(reader(SMALL), *[endless[n : n + piece] for n in range(0, 8192, piece)])
    assert reading.refusal.status == 431


@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_body_is_bounded_however_it_comes(piece):
    head = b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = chunked(b"x" * 1025, 100)
    reading = feed(reader(SMALL), head, *[body[n : n + piece] for n in range(0, len(body), piece)])
    assert reading.refusal.status == 413
    assert not reading.complete


def test_announced_length_beyond_the_bound_is_refused_before_its_body():
    head = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1025\r\nExpect: 100-continue\r\n\r\n"
    assert feed(reader(SMALL), head).refusal.status == 413


def test_nothing_of_the_budget_is_kept_by_a_reader_that_is_closed():
    budget = BodyBudget(1000)
    reading = RequestReader(limits=ROOMY, budget=budget, now=lambda: 0.0)
    head = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n"
    feed(reading, (head + b"x" * 100) * 3 + head + b"y" * 50)
    assert budget.held_bytes == 350
    reading.close()
    assert budget.held_bytes == 0


def test_budget_that_is_used_up_refuses_and_keeps_what_was_complete():
    head = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n"
    reading = feed(reader(budget_bytes=150), (head + b"x" * 100) * 2)
    assert len(reading.complete) == 1
    assert (reading.refusal.status, reading.refusal.code) == (503, "memory_pressure")
