"""Usage is asked for where the client did not, and the chunk that tells it never reaches him."""

from __future__ import annotations

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway import usage_chunk
from llmgw.gateway.usage import Usage
from llmgw.gateway.usage_chunk import MOST_HELD_BYTES, Removal

TEXT = b'data: {"choices":[{"delta":{"content":"\xc3\xa9 \\"usage\\": []"}}],"usage":null}\n\n'
EXTRA = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\n'
DONE = b"data: [DONE]\n\n"


def through(removal, pieces):
    return b"".join([*map(removal.feed, pieces), removal.rest()])


# Asking


@pytest.mark.parametrize(
    ("options", "may_ask"),
    [
        (msgspec.UNSET, True),
        (None, True),
        ({}, True),
        ({"include_usage": False}, True),
        ({"include_usage": None}, True),
        ({"include_usage": True}, False),
        ({"include_usage": "true"}, False),
        ("junk", False),
        ([], False),
    ],
    ids=repr,
)
def test_usage_is_asked_for_where_the_client_did_not(options, may_ask):
    assert (usage_chunk.asking(options) is not None) is may_ask


def test_body_without_options_gets_them_and_stays_as_it_is_otherwise():
    body = b' {"model" : "m", "x":1.50, "stream":true}'
    asking = usage_chunk.ask(body, usage_chunk.asking(msgspec.UNSET))
    assert asking == b' {"stream_options":{"include_usage":true},' + body[2:]
    assert orjson.loads(asking)["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False, "other": [1]}], ids=repr)
def test_options_of_the_client_are_kept_beside_the_wish(options):
    body = orjson.dumps({"model": "m", "stream_options": options}) + b" "
    sent = orjson.loads(usage_chunk.ask(body, usage_chunk.asking(options)))
    assert sent == {"model": "m", "stream_options": {**(options or {}), "include_usage": True}}


# Taking out


def test_extra_chunk_is_taken_out_and_read():
    removal = Removal()
    assert through(removal, [TEXT + EXTRA + DONE]) == TEXT + DONE
    assert removal.usage == Usage(9, 4)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_stream_split_at_every_byte_comes_out_the_same(end):
    sent = (b": ping\n\n" + TEXT * 2 + EXTRA + DONE).replace(b"\n", end)
    wanted = (b": ping\n\n" + TEXT * 2 + DONE).replace(b"\n", end)
    for position in range(len(sent) + 1):
        removal = Removal()
        assert through(removal, [sent[:position], sent[position:]]) == wanted
        assert removal.usage == Usage(9, 4)
    assert through(Removal(), [sent[n : n + 1] for n in range(len(sent))]) == wanted


@given(
    st.lists(st.sampled_from([TEXT, EXTRA, DONE, b"\n\n", b": x\n\n", b"\n"]), max_size=8),
    st.data(),
)
def test_no_byte_but_of_the_extra_chunk_is_ever_lost(frames, data):
    sent = b"".join(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=5)))
    pieces = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    wanted = b"".join(frame for frame in frames if frame is not EXTRA)
    passed = through(Removal(), pieces)
    # A stray empty line before the chunk is part of its frame and goes with it.
    assert passed.replace(b"\n", b"") == wanted.replace(b"\n", b"")


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(
            b'data: {"choices":[],"usage":{"a":' + b"[" * 300 + b"]" * 300 + b"}}\n\n", id="deep"
        ),
        pytest.param(b'data: {"choices":[],"usage":null}\n\n', id="null usage"),
        pytest.param(b'data: {"choices":[{"index":0}],"usage":{"prompt_tokens":1}}\n\n', id="text"),
        pytest.param(b'data: {"choices":[],"error":{"usage":1}}\n\n', id="usage elsewhere"),
        pytest.param(b'data: {"usage":{"choices":[]}}\n\n', id="choices elsewhere"),
        pytest.param(b'data: {"choices":[],"usage":{\n\n', id="not JSON"),
        pytest.param(b': {"choices":[],"usage":{"prompt_tokens":1}}\n\n', id="a comment"),
        pytest.param(b'data: [{"choices":[],"usage":{"prompt_tokens":1}}]\n\n', id="a list"),
    ],
)
def test_frame_that_is_not_just_the_extra_chunk_passes(frame):
    assert through(Removal(), [frame + EXTRA]) == frame


def test_chunk_of_another_spelling_is_taken_out_too():
    spaced = b'event: x\ndata: { "choices" : [ ] , "usage" : {"prompt_tokens":1} }\n\n'
    over_lines = b'data:{"choices":[],\ndata: "usage":{"prompt_tokens":2}}\n\n'
    assert through(Removal(), [spaced + over_lines]) == b""


def test_unbelievable_figures_are_taken_out_and_not_kept():
    removal = Removal()
    assert through(removal, [b'data: {"choices":[],"usage":{"prompt_tokens":"x"}}\n\n']) == b""
    assert removal.usage is None


def test_frame_without_end_is_passed_on_and_nothing_is_taken_out_any_more():
    removal = Removal()
    long = b"data: " + b"x" * MOST_HELD_BYTES
    assert removal.feed(long) == long
    assert removal.feed(EXTRA) == EXTRA
    assert removal.rest() == b""


def test_memory_of_the_removal_is_bounded():
    removal = Removal()
    held_bytes = 0
    for _ in range(200):
        held_bytes += 10_000 - len(removal.feed(b"x" * 10_000))
        assert held_bytes <= MOST_HELD_BYTES + 10_000


def test_padded_removal_keeps_the_length():
    passed = through(Removal(pads=True), [TEXT + EXTRA + DONE])
    assert len(passed) == len(TEXT + EXTRA + DONE)
    assert passed.startswith(TEXT + b":")
    assert b"usage" not in passed[len(TEXT) :]
    assert passed.endswith(b"\n\n" + DONE)


def test_begun_frame_comes_out_at_the_end():
    removal = Removal()
    assert removal.feed(TEXT + b"data: {") == TEXT
    assert not removal.is_between_frames
    assert removal.rest() == b"data: {"
    assert removal.is_between_frames
