"""Take the head of a conversation from a request body: what prefix affinity compares; pure.

``affinity`` asks for it only while prefix affinity is on.  The head is bounded, so a long
conversation costs no more than a short one to compare, and two clients that write their JSON
differently have the same head for the same words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

_AFTER_ROLE, _AFTER_TEXT = b"\x1f", b"\x1e"


class _Message(msgspec.Struct):
    role: str = ""
    content: Any = None


class _Conversation(msgspec.Struct):
    messages: list[_Message] = []
    prompt: Any = None


_decode = msgspec.json.Decoder(_Conversation).decode


def head_of(body: bytes, most_bytes: int) -> bytes:
    """The first bytes of what the client says; empty where it cannot be told."""
    try:
        return _begin_of(_decode(body), most_bytes)
    except (msgspec.MsgspecError, RecursionError):  # nested deeper than msgspec reads, or writes
        return b""


def _begin_of(conversation: _Conversation, most_bytes: int) -> bytes:
    pieces: list[bytes] = []
    left = most_bytes
    for piece in _pieces(conversation, most_bytes):
        pieces.append(piece)
        left -= len(piece)
        if left <= 0:
            break
    return b"".join(pieces)[:most_bytes]


def _pieces(conversation: _Conversation, most_bytes: int) -> Iterator[bytes]:
    if isinstance(prompt := conversation.prompt, str):
        yield prompt[:most_bytes].encode()
    for message in conversation.messages:
        yield message.role.encode() + _AFTER_ROLE
        content = message.content
        if isinstance(content, str):
            yield content[:most_bytes].encode() + _AFTER_TEXT
        elif isinstance(content, list):
            for part in content:
                yield _part(part, most_bytes)
            yield _AFTER_TEXT


def _part(part: Any, most_bytes: int) -> bytes:
    """A part's text; of an image or anything else its digest."""
    text = part.get("text") if isinstance(part, dict) else None
    if isinstance(text, str):
        return text[:most_bytes].encode()
    return hashlib.sha256(msgspec.json.encode(part)).digest()
