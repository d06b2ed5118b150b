"""The agent's own newest log lines."""

from __future__ import annotations

import logging

from llmgw.agent.ring import LogRing


def ring_with(*messages, lines=3):
    ring = LogRing(lines=lines)
    for message in messages:
        ring.handle(logging.LogRecord("x", logging.INFO, "", 0, message, None, None))
    return ring


def test_an_empty_ring_has_no_lines():
    assert ring_with().tail(5) == ()


def test_the_newest_lines_are_kept_in_their_order():
    ring = ring_with("1", "2", "3", "4")
    assert ring.tail(0) == ("2", "3", "4")
    assert ring.tail(2) == ("3", "4")
    assert ring.tail(9) == ("2", "3", "4")


def test_a_record_of_several_lines_counts_as_several():
    assert ring_with("a\nb\n", "c", lines=9).tail(2) == ("b", "c")
