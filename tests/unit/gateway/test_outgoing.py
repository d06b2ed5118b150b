"""What one turn of the event loop sends goes out at its end, in its order, and soon enough."""

from __future__ import annotations

import asyncio

import pytest

from llmgw.gateway.outgoing import Outgoing, Sender


class Transport(asyncio.Transport):
    """Notes what it is given in a list that many may share."""

    def __init__(self, sent):
        super().__init__()
        self.sent = sent
        self.is_aborted = False
        self.fault = None

    def write(self, data):
        if self.fault is not None:
            raise self.fault
        self.sent.append(data)

    def abort(self):
        self.is_aborted = True


@pytest.fixture
def sent():
    return []


@pytest.fixture
def outgoing():
    return Outgoing()


def sender(outgoing, sent):
    made = Sender(outgoing)
    made._transport = Transport(sent)
    return made


async def test_what_is_written_in_a_turn_is_sent_at_its_end(outgoing, sent):
    first, second = sender(outgoing, sent), sender(outgoing, sent)
    first.write(b"a")
    second.write(b"b")
    assert sent == []
    await asyncio.sleep(0)
    assert sent == [b"a", b"b"]
    first.write(b"c")
    await asyncio.sleep(0)
    assert sent == [b"a", b"b", b"c"]


@pytest.mark.parametrize("size", [1, 10_000])
async def test_bytes_of_one_connection_keep_their_order(outgoing, sent, size):
    one = sender(outgoing, sent)
    pieces = [b"%d" % number * size for number in range(5)]
    for piece in pieces:
        one.write(piece)
    await asyncio.sleep(0)
    assert sent == pieces


async def test_many_bytes_do_not_wait(outgoing, sent):
    sender(outgoing, sent).write(b"x" * 4097)
    assert len(sent) == 1


async def test_the_first_of_many_does_not_wait_for_all(outgoing, sent):
    for _ in range(1000):
        sender(outgoing, sent).write(b"x")
    assert len(sent) > 900
    await asyncio.sleep(0)
    assert len(sent) == 1000


async def test_a_begin_goes_before_what_goes_on_and_nobody_waits_for_ever(outgoing, sent):
    tokens = [b"%d" % number for number in range(100)]
    for token in tokens:
        sender(outgoing, sent).write_later(token)
    sender(outgoing, sent).write(b"begin")
    await asyncio.sleep(0)
    assert sent[0] == b"begin"
    assert len(sent) < 20  # so that what comes now need not wait for all of them
    sender(outgoing, sent).write(b"another")
    await asyncio.sleep(0)
    assert sent.index(b"another") < 20
    for _ in range(20):
        await asyncio.sleep(0)
    assert [one for one in sent if one.isdigit()] == tokens


async def test_a_begin_does_not_overtake_the_answer_before_it(outgoing, sent):
    one = sender(outgoing, sent)
    one.write_later(b"end")
    one.write(b"begin")
    one.write_later(b"token")
    await asyncio.sleep(0)
    assert sent == [b"end", b"begin", b"token"]


async def test_a_connection_that_cannot_send_takes_nothing_from_the_others(outgoing, sent):
    broken, whole = sender(outgoing, sent), sender(outgoing, sent)
    broken._transport.fault = RuntimeError("no")
    for one in (broken, whole):
        one.write(b"x")
    await asyncio.sleep(0)
    assert sent == [b"x"]
    assert broken._transport.is_aborted


async def test_an_aborted_connection_sends_nothing_more(outgoing, sent):
    one = sender(outgoing, sent)
    one.write(b"x")
    one.abort()
    one.send_off()
    await asyncio.sleep(0)
    assert sent == []
