"""However an engine frames and splits a stream, its client reads it whole, without one chunk."""

from __future__ import annotations

import itertools

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.gateway.chunked_framing import ChunkedFraming
from llmgw.gateway.framing import CloseFraming, LengthFraming
from llmgw.gateway.passage import AsItCame, Bare, WithoutUsage
from llmgw.gateway.replies import truncation_event
from llmgw.gateway.usage_chunk import MOST_HELD_BYTES
from tests.fakes.upstream import CHUNKED, DONE, event

EXTRA = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\n'
EXTRAS = [
    EXTRA,
    EXTRA.replace(b"\n", b"\r\n"),
    b'id: 7\nevent: x\ndata: { "usage" : {"prompt_tokens":1}, "choices" : [ ] }\n\n',
    b'data:{"choices":[],\ndata:"usage":{}}\n\n',
]
KEPT = [
    event("a"),
    event('"usage" of "choices":[]'),
    event("é" * 300),
    event("x" * 40_000),
    b'data: {"choices":[{"delta":{}}],"usage":null}\n\n',
    b'data: {"choices":[],"usage":null}\n\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":9\n\n',
    b': "usage" "choices":[]\r\n\r\n',
    b": ping\n\n",
    b'data: [1,"usage","choices":[]]\n\n',
    b'data: \xff\xfe"usage"\x00\n\n',
    DONE,
]
ERROR = truncation_event("req-1")

frames = st.lists(st.sampled_from(KEPT + EXTRAS), max_size=8)


def kept(some):
    return b"".join(frame for frame in some if frame not in EXTRAS)


def cut_up(data, draw, *, most=6):
    """The same bytes in pieces, some of them tiny."""
    edges = draw(st.lists(st.integers(0, len(data)), max_size=most))
    near = [edge + step for edge in edges[:2] for step in (1, 2) if edge + step <= len(data)]
    return [
        data[a:b] for a, b in itertools.pairwise(sorted([0, *edges, *near, len(data)])) if a < b
    ]


def chunked(some, draw):
    """A chunked body as a hostile engine may write it: its chunks need not be events."""
    pieces = some if draw(st.booleans()) else cut_up(b"".join(some), draw)
    size = draw(st.sampled_from(["%x", "%X", "%08x", "%x;name=value", '%x;a="b"']))
    trailer = draw(st.sampled_from([b"", b"X-Trailer: 1\r\n"]))
    body = b"".join((size % len(one)).encode() + b"\r\n" + one + b"\r\n" for one in pieces if one)
    return body + b"0\r\n" + trailer + b"\r\n"


class Read:
    """What an HTTP client understands of a chunked answer; raises where it is none."""

    def __init__(self, sent):
        self.payload = b""
        self.is_complete = False
        httptools.HttpResponseParser(self).feed_data(CHUNKED + sent)

    def on_body(self, piece):
        self.payload += piece

    def on_message_complete(self):
        self.is_complete = True


def through(passage, framing, reads):
    """What the client gets of these reads, the end included if it is among them."""
    sent = b""
    for read in reads:
        framing.feed(read)
        sent += passage.last(read) if framing.is_complete else passage.body(read)
    return sent


@given(frames, st.data())
def test_chunked_stream_loses_the_extra_chunk_and_nothing_else(some, data):
    body = chunked(some, data.draw)
    for is_bare in (False, True):
        framing = ChunkedFraming(keeps_payload=True)
        passage = WithoutUsage(framing, is_bare=is_bare)
        sent = through(passage, framing, cut_up(body, data.draw))
        if is_bare:
            assert sent == kept(some)
        else:
            read = Read(sent)
            assert (read.payload, read.is_complete) == (kept(some), True)
        assert (passage.usage is not None) or not {EXTRA, EXTRAS[1], EXTRAS[2]} & set(some)


@given(frames, st.data())
def test_whatever_is_held_back_first_comes_first(some, data):
    """As if all before some point were comments that committed nothing yet."""
    body = chunked(some, data.draw)
    reads = cut_up(body[:-5], data.draw)
    at = data.draw(st.integers(0, len(reads)))
    for make in (AsItCame, Bare, lambda framing: WithoutUsage(framing, is_bare=False)):
        framing = ChunkedFraming(keeps_payload=True)
        passage = make(framing)
        for read in reads[:at]:
            framing.feed(read)
        sent = passage.held(b"".join(reads[:at]))
        sent += through(passage, framing, [*reads[at:], body[-5:]])
        payload = sent if make is Bare else Read(sent).payload
        assert payload == (b"".join(some) if make in {AsItCame, Bare} else kept(some))


@given(frames, st.data())
def test_wherever_it_is_cut_the_client_reads_what_came_and_the_error(some, data):
    body = chunked(some, data.draw)
    at = data.draw(st.integers(0, len(body) - 1))
    framing = ChunkedFraming(keeps_payload=True)
    passage = WithoutUsage(framing, is_bare=False)
    reads = cut_up(body[:at], data.draw)
    sent = through(passage, framing, reads)
    read = Read(sent + passage.after_cut(ERROR))
    assert not read.is_complete
    assert read.payload.endswith(ERROR)
    came = read.payload.removesuffix(ERROR)
    assert came == ending_within(some, came)


@given(frames, st.data())
def test_end_without_its_own_word_becomes_the_error(some, data):
    body = chunked(some, data.draw)
    framing = ChunkedFraming(keeps_payload=True)
    passage = WithoutUsage(framing, is_bare=False)
    *reads, last = cut_up(body, data.draw)
    sent = through(passage, framing, reads)
    framing.feed(last)
    read = Read(sent + passage.in_place_of_end(last, ERROR))
    assert (read.is_complete, read.payload) == (False, kept(some) + ERROR)


@given(frames, st.data())
def test_announced_length_is_kept(some, data):
    payload = b"".join(some)
    framing = LengthFraming(len(payload))
    passage = WithoutUsage(framing, is_bare=False)
    sent = through(passage, framing, cut_up(payload, data.draw))
    assert len(sent) == len(payload)
    assert without_padding(some, sent)


@given(frames, st.data())
def test_stream_until_the_close_loses_the_extra_chunk_and_nothing_else(some, data):
    framing = CloseFraming()
    passage = WithoutUsage(framing, is_bare=False)
    sent = through(passage, framing, cut_up(b"".join(some), data.draw))
    assert sent + passage.last(b"") == kept(some)


@settings(max_examples=10)
@given(st.lists(st.sampled_from([*KEPT[:3], EXTRA, None, None]), max_size=6), st.data())
def test_huge_events_pass_whole_and_memory_stays_bounded(some, data):
    """After one that is larger than may be held back nothing is taken out any more."""
    huge = b"data: " + b"y" * (MOST_HELD_BYTES + 1000) + b"\n\n"
    some = [huge if frame is None else frame for frame in some]
    body = chunked(some, data.draw)
    framing = ChunkedFraming(keeps_payload=True)
    passage = WithoutUsage(framing, is_bare=False)
    sent = b""
    passed = fed = 0
    for read in cut_up(body, data.draw, most=20):
        for begin in range(0, len(read), 65_536):
            piece = read[begin : begin + 65_536]
            fed += len(piece)
            got = through(passage, framing, [piece])
            passed += len(got)
            sent += got
            assert fed - passed <= MOST_HELD_BYTES + 70_000 + len(EXTRA) * len(some)
    read = Read(sent)
    assert read.is_complete
    assert read.payload.replace(EXTRA, b"") == kept(some)


@pytest.mark.parametrize("frame", KEPT, ids=range(len(KEPT)))
def test_frame_of_a_chunk_of_its_own_passes_as_it_came(frame):
    framing = ChunkedFraming(keeps_payload=True)
    sent = b"%x\r\n%b\r\n" % (len(frame), frame)
    assert through(WithoutUsage(framing, is_bare=False), framing, [sent]) == sent


def ending_within(some, came):
    """``came`` if it is what is kept of these frames up to some byte of one of them."""
    before = b""
    for frame in some:
        if came[: len(before)] == before and frame.startswith(came[len(before) :]):
            return came
        if frame not in EXTRAS:
            before += frame
    return before


def without_padding(some, sent):
    """Whether each frame is at its place, and each extra one a comment of its length."""
    at = 0
    for frame in some:
        got = sent[at : at + len(frame)]
        at += len(frame)
        expected = b":" + b" " * (len(frame) - 3) + b"\n\n" if frame in EXTRAS else frame
        if got != expected:
            return False
    return at == len(sent)
