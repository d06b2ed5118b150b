"""A follower of body framing finds the exact end, however the bytes are cut."""

from __future__ import annotations

import itertools

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.gateway.chunked_framing import ChunkedFraming
from llmgw.gateway.framing import CloseFraming, FramingBroken, LengthFraming, Surplus


def chunked(*payloads, extension=b"", trailer=b""):
    chunks = [b"%x%b\r\n%b\r\n" % (len(payload), extension, payload) for payload in payloads]
    return b"".join(chunks) + b"0\r\n" + trailer + b"\r\n"


def feed_all(framing, *reads):
    for read in reads:
        framing.feed(read)


class Decoder:
    """What a client makes of a chunked answer."""

    def __init__(self):
        self.payload = b""
        self.is_complete = False
        self._parser = httptools.HttpResponseParser(self)
        self._parser.feed_data(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    def feed(self, data):
        self._parser.feed_data(data)
        return self

    def on_body(self, piece):
        self.payload += piece

    def on_message_complete(self):
        self.is_complete = True


PAYLOADS = st.lists(st.binary(min_size=1, max_size=40), max_size=5)
EXTENSIONS = st.sampled_from([b"", b";a", b" ;a=b", b";a=b;c"])
TRAILERS = st.sampled_from([b"", b"X: y\r\n", b"X: y\r\nZ:\r\n"])


@settings(max_examples=50)
@given(payloads=PAYLOADS, extension=EXTENSIONS, trailer=TRAILERS, after=st.binary(), data=st.data())
def test_end_is_found_exactly_however_the_bytes_are_cut(payloads, extension, trailer, after, data):
    body = chunked(*payloads, extension=extension, trailer=trailer)
    stream = body + after
    framing = ChunkedFraming(keeps_payload=True)
    taken, payload = 0, b""
    while not framing.is_complete:
        size = data.draw(st.integers(1, len(stream) - taken))
        read = stream[taken : taken + size]
        taken += framing.feed(read)
        payload += framing.payload(read)
    assert taken == len(body)
    assert payload == b"".join(payloads)
    assert framing.has_payload == bool(payloads)


@given(payloads=PAYLOADS, cut=st.integers(0), event=st.binary(min_size=1, max_size=60))
def test_event_after_a_cut_at_any_byte_is_read_by_a_client_and_nothing_ends(payloads, cut, event):
    body = chunked(*payloads)
    passed = body[: cut % len(body)]
    framing = ChunkedFraming()
    framing.feed(passed)
    before = Decoder().feed(passed).payload
    client = Decoder().feed(passed + framing.after_cut(event))
    assert client.payload in {before + event, before}
    assert (client.payload == before) == (not framing.after_cut(event))
    assert not client.is_complete


def test_event_is_lost_only_where_the_end_had_begun():
    body = chunked(b"abc")
    lost = []
    for cut in range(len(body)):
        framing = ChunkedFraming()
        framing.feed(body[:cut])
        if not framing.after_cut(b"event"):
            lost.append(body[cut:])
    assert lost == [b"\n\r\n", b"\r\n", b"\n"]


@given(payloads=PAYLOADS, cut=st.integers(0))
def test_event_in_place_of_the_end_keeps_the_answer_open(payloads, cut):
    body = chunked(*payloads)
    cut %= len(body)
    framing = ChunkedFraming()
    framing.feed(body[:cut])
    framing.feed(body[cut:])
    shown = body[:cut] + framing.in_place_of_end(body[cut:], b"event")
    client = Decoder().feed(shown)
    assert not client.is_complete
    assert client.payload in {b"".join(payloads), b"".join(payloads) + b"event"}


@pytest.mark.parametrize(
    "line",
    [b"", b"g", b"0x5", b"-5", b"+5", b"5_0", b" 5", b"5 5", b"f" * 16, b"\xb2"],
    ids=repr,
)
def test_size_that_is_no_plain_hexadecimal_is_refused(line):
    with pytest.raises(FramingBroken):
        ChunkedFraming().feed(line + b"\r\nhello\r\n")


@pytest.mark.parametrize("at", range(1, 9))
def test_chunk_that_does_not_end_where_it_says_is_refused(at):
    body = b"3\r\nabcde\r\n"
    with pytest.raises(FramingBroken):
        feed_all(ChunkedFraming(), body[:at], body[at:])


def test_line_without_an_end_is_refused():
    with pytest.raises(FramingBroken):
        feed_all(ChunkedFraming(), *[b"1"] * 20_000)


def test_announced_length_takes_its_bytes_and_no_more():
    framing = LengthFraming(5)
    assert framing.feed(b"abc") == 3
    assert not framing.is_complete
    assert framing.feed(b"defg") == 2
    assert framing.is_complete


def test_length_of_nothing_is_complete_at_once_and_has_no_payload():
    framing = LengthFraming(0)
    assert framing.is_complete
    assert not framing.has_payload


def test_event_fits_into_an_announced_length_only_while_it_leaves_it_short():
    framing = LengthFraming(10)
    framing.feed(b"abc")
    assert framing.after_cut(b"123456") == b"123456"
    assert framing.after_cut(b"1234567") == b""


def test_body_that_ends_with_its_connection_never_ends_by_itself():
    framing = CloseFraming()
    assert framing.feed(b"abc") == 3
    assert not framing.is_complete
    assert framing.ends_at_close()
    assert framing.after_cut(b"event") == b"event"


def test_two_sizes_alike_that_are_both_cut_are_two_sizes():
    framing = ChunkedFraming()
    feed_all(framing, b"1", b"\r\na\r\n1", b"\r\nb\r\n0", b"\r\n\r\n")
    assert framing.is_complete


def verdict(stream, reads):
    """How many bytes belong to a body, and whether it is complete; or that it is broken."""
    framing = ChunkedFraming(keeps_payload=True)
    taken, payload = 0, b""
    try:
        for read in reads:
            if framing.is_complete:
                break
            taken += framing.feed(read)
            payload += framing.payload(read)
    except FramingBroken:
        return "broken"
    return taken, framing.is_complete, payload


@given(
    payloads=PAYLOADS,
    at=st.integers(0),
    byte=st.sampled_from(b"\r\n\x00 ;0gF\xff"),
    cuts=st.lists(st.integers(0, 300), max_size=6),
)
def test_damaged_body_is_judged_alike_however_it_is_cut(payloads, at, byte, cuts):
    stream = bytearray(chunked(*payloads))
    stream[at % len(stream)] = byte
    stream = bytes(stream)
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    reads = [stream[a:b] for a, b in itertools.pairwise(edges) if a < b]
    assert verdict(stream, reads) == verdict(stream, [stream])


STRICT_EXTENSIONS = st.sampled_from([b"", b";a", b";a=b;c"])
"""Those that every client reads."""


@settings(max_examples=40)
@given(payloads=PAYLOADS, extension=STRICT_EXTENSIONS, data=st.data())
def test_payload_is_seen_with_its_first_byte_and_not_with_its_size(payloads, extension, data):
    body = chunked(*payloads, extension=extension)
    framing = ChunkedFraming()
    taken, client = 0, Decoder()
    while taken < len(body):
        size = data.draw(st.integers(1, len(body) - taken))
        framing.feed(body[taken : taken + size])
        client.feed(body[taken : taken + size])
        taken += size
        assert framing.has_payload == bool(client.payload)


@given(payloads=PAYLOADS, extension=STRICT_EXTENSIONS, cut=st.integers(0))
def test_what_follows_a_cut_never_breaks_what_the_client_has(payloads, extension, cut):
    """Within an extension too."""
    body = chunked(*payloads, extension=extension)
    passed = body[: cut % len(body)]
    framing = ChunkedFraming()
    framing.feed(passed)
    client = Decoder().feed(framing.without_surplus(passed) + framing.after_cut(b"event"))
    assert not client.is_complete


@settings(max_examples=100)
@given(payloads=PAYLOADS, extension=EXTENSIONS, trailer=TRAILERS, data=st.data())
def test_clients_get_neither_extensions_nor_trailers(payloads, extension, trailer, data):
    stream = chunked(*payloads, extension=extension, trailer=trailer)
    framing = ChunkedFraming(tells_surplus=data.draw(st.booleans()))
    taken, shown = 0, b""
    while not framing.is_complete:
        size = data.draw(st.integers(1, len(stream) - taken))
        read = stream[taken : taken + size]
        try:
            taken += framing.feed(read)
        except Surplus:
            taken += framing.feed(read)
        shown += framing.without_surplus(read)
    assert shown == chunked(*payloads)
    assert framing.has_surplus == bool(trailer or (extension and payloads))


@given(payloads=PAYLOADS, data=st.data())
def test_padding_of_sizes_does_not_grow_on_the_way(payloads, data):
    sizes = ["%x", "%015x", "%x    ", "%08x ;a"]
    stream = b"".join(
        (data.draw(st.sampled_from(sizes)) % len(one)).encode() + b"\r\n" + one + b"\r\n"
        for one in payloads
    )
    framing = ChunkedFraming()
    framing.feed(stream + b"000\r\n\r\n")
    assert framing.without_surplus(stream + b"000\r\n\r\n") == chunked(*payloads)


def test_surplus_is_told_once_and_the_same_bytes_are_read_again():
    framing = ChunkedFraming(tells_surplus=True)
    framing.feed(b"1\r\na\r\n")
    with pytest.raises(Surplus):
        framing.feed(b"1;x\r\nb\r\n")
    assert framing.feed(b"1;x\r\nb\r\n") == len(b"1;x\r\nb\r\n")
    framing.feed(b"0;y\r\nX: 1\r\n\r\n")
    assert framing.is_complete


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param([b"X: y\r\n" * 1000], id="in one read"),
        pytest.param([b"X: y\r\n"] * 1000, id="line by line"),
        pytest.param([b"X: " + b"y" * 1000 + b"\r\n"] * 60, id="long lines"),
        pytest.param([b"X"] * 20_000, id="one line"),
    ],
)
def test_trailer_without_an_end_is_refused(reads):
    with pytest.raises(FramingBroken):
        feed_all(ChunkedFraming(), b"0\r\n", *reads)


@pytest.mark.parametrize("line", [b"5;a\nb", b"5;a\rb", b"5\r;b", b"5;\n"], ids=repr)
def test_bare_end_of_line_in_an_extension_is_refused(line):
    for at in range(1, len(line) + 1):
        with pytest.raises(FramingBroken):
            feed_all(ChunkedFraming(), line[:at], line[at:] + b"\r\nhello\r\n")


@pytest.mark.parametrize("begun", [b"", b"5\r\nhel", b"5\r\nhello\r\n", b"5\r\nhello\r", b"1"])
@pytest.mark.parametrize("broken", [b"zz\r\n", b"\r\n\r\n", b"5\r\nhellooo\r\n"])
def test_event_after_damage_continues_what_was_passed_on_before_it(begun, broken):
    """The read that showed the damage was not passed on."""
    framing = ChunkedFraming()
    framing.feed(begun)
    try:
        framing.feed(broken)
    except FramingBroken:
        before = Decoder().feed(begun).payload
        client = Decoder().feed(begun + framing.after_cut(b"event"))
        assert client.payload == before + b"event"
