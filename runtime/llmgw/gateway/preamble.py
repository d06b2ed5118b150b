"""Tell what an engine sends before its first word from that word; pure.

``attempt`` asks, before commit: engines send comments while they read a prompt (llama.cpp does),
which prove that their server lives and not that it works.  Of which kind an engine is need not be
known.  Only the framing of events is looked at.
"""

from __future__ import annotations

import re

from llmgw.gateway import chunked_framing
from llmgw.gateway.framing import Framing

MOST_BYTES = 65536
"""So much of it is held back; more counts as an answer."""

_WORD = re.compile(rb"(?:\A|[\r\n])[^:\r\n]")
_FIRST_WORD = b"\ndata:"


def is_all(follower: Framing, body: bytes) -> bool:
    """Whether ``body``, all that came so far as it came, has comments and empty lines alone."""
    if _FIRST_WORD in body or len(body) > MOST_BYTES:
        return False  # a line that begins so is the word of nearly every stream
    return _WORD.search(chunked_framing.payload_of(follower, body)) is None
