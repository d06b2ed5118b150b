"""Tell what an engine sends before its first word from that word; pure.

``attempt`` asks, before commit: some engines send comments while they read a prompt, which prove
that their server lives and not that it works.  Only the framing of events is looked at.
"""

from __future__ import annotations

import re

from llmgw.gateway import framing
from llmgw.gateway.framing import Framing

MOST_BYTES = 65536
"""So much of it is held back; more counts as an answer."""

_WITH_COMMENTS = frozenset({"llamacpp"})
_WORD = re.compile(rb"(?:\A|[\r\n])[^:\r\n]")


def may_come_from(engine: str, *, is_events: bool) -> bool:
    """Whether an answer of such an engine may begin with comments."""
    return is_events and engine in _WITH_COMMENTS


def is_all(follower: Framing, body: bytes) -> bool:
    """Whether ``body``, all that came so far as it came, has comments and empty lines alone."""
    if len(body) > MOST_BYTES:
        return False
    return _WORD.search(framing.payload_of(follower, body)) is None
