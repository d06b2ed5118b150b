"""The conversation in a request body, as far as its begin tells it from others; pure.

``heads`` reads it.  A module of its own, because modules that read JSON by msgspec are not
compiled.
"""

from __future__ import annotations

from typing import Any

import msgspec

from llmgw.gateway.abundance import is_abundant


class Message(msgspec.Struct):
    """One message of a chat; its content is a text or a list of parts."""

    role: str = ""
    content: Any = None


class Conversation(msgspec.Struct):
    """A chat, or the prompt of a completion."""

    messages: list[Message] = []
    prompt: Any = None


_decode = msgspec.json.Decoder(Conversation).decode


def read(body: bytes) -> Conversation | None:
    """What the client says; nothing where it cannot be told."""
    if is_abundant(body):
        return None
    try:
        return _decode(body)
    except (msgspec.MsgspecError, RecursionError):  # nested deeper than msgspec reads
        return None
