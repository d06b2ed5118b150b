"""What a relay keeps of an answer: its end, whatever the reads that it came in."""

from __future__ import annotations

import pytest

from llmgw.gateway.framing import CloseFraming
from llmgw.gateway.outgoing import Outgoing
from llmgw.gateway.relaying import Manner, Relay
from llmgw.gateway.upstream import Keeper, UpstreamConnection

_TEXT = b'data: {"choices":[{"delta":{"content":"word"}}]}\n\n'
_USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9}}\n\n'
_DONE = b"data: [DONE]\n\n"


class Client:
    """Takes everything."""

    is_paused = False

    def write_later(self, data):
        """Not looked at."""


def relay(*, hides_usage=False):
    manner = Manner("r-1", is_events=True, is_bare=False, hides_usage=hides_usage)
    return Relay(
        Client(),
        connection=UpstreamConnection(Keeper(Outgoing())),
        framing=CloseFraming(),
        manner=manner,
        on_end=lambda cut: None,
    )


def fed(one, text, *, read_bytes):
    for start in range(0, len(text), read_bytes):
        one.on_body(text[start : start + read_bytes])


@pytest.mark.parametrize("read_bytes", [1, 7, 63, 64, 300, 5000])
def test_the_end_of_a_stream_is_known_whatever_the_reads_it_came_in(read_bytes):
    one = relay()
    fed(one, _TEXT * 200 + _USAGE + _DONE, read_bytes=read_bytes)
    said = one.usage(request_bytes=0)
    assert (said.prompt_tokens, said.completion_tokens, said.is_estimated) == (7, 9, False)
    assert not one.lacks_done


@pytest.mark.parametrize("hides_usage", [False, True])
@pytest.mark.parametrize("read_bytes", [1, 7, 300])
def test_what_was_said_long_before_the_end_is_forgotten(read_bytes, hides_usage):
    one = relay(hides_usage=hides_usage)
    fed(one, _DONE + _TEXT * 60, read_bytes=read_bytes)
    assert one.lacks_done


def test_the_same_byte_as_before_is_something_new():
    one = relay()
    one.on_body(b"\n")
    mark = one.mark
    assert not one.has_brought(mark=mark, events=one.events)
    one.on_body(b"x" * 3000)
    mark = one.mark
    one.on_body(b"\n")
    assert one.mark != mark
    assert one.has_brought(mark=mark, events=one.events)
