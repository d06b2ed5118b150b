"""Take the head of a conversation from a request body: what prefix affinity compares; pure.

``affinity`` asks for it only while prefix affinity is on.  The head is bounded, so a long
conversation costs no more than a short one to compare, and two clients that write their JSON
differently have the same head for the same words.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from llmgw.gateway import conversations
from llmgw.gateway.conversations import Message

_AFTER_ROLE: Final = b"\x1f"
_AFTER_TEXT: Final = b"\x1e"


def head_of(body: bytes, most_bytes: int) -> bytes:
    """The first bytes of what the client says; empty where it cannot be told."""
    conversation = conversations.read(body)
    if conversation is None:
        return b""
    prompt = conversation.prompt
    pieces = [prompt[:most_bytes].encode()] if isinstance(prompt, str) else []
    left = most_bytes
    for message in conversation.messages:
        said = _said(message, most_bytes)
        pieces.append(said)
        left -= len(said)
        if left <= 0:
            break
    return b"".join(pieces)[:most_bytes]


def _said(message: Message, most_bytes: int) -> bytes:
    content = message.content
    begin = message.role.encode() + _AFTER_ROLE
    if isinstance(content, str):
        return begin + content[:most_bytes].encode() + _AFTER_TEXT
    if not isinstance(content, list):
        return begin
    return begin + _parts(content, most_bytes) + _AFTER_TEXT


def _parts(parts: list[Any], most_bytes: int) -> bytes:
    pieces: list[bytes] = []
    left = most_bytes
    for part in parts:
        said = _part(part, most_bytes)
        pieces.append(said)
        left -= len(said)
        if left <= 0:
            break
    return b"".join(pieces)


def _part(part: Any, most_bytes: int) -> bytes:
    """A part's text; of an image or anything else its digest."""
    text = part.get("text") if isinstance(part, dict) else None
    if isinstance(text, str):
        return text[:most_bytes].encode()
    try:
        written = msgspec.json.encode(part)
    except RecursionError:  # as deep as could be read, and no deeper can be written from here
        written = b""
    return hashlib.sha256(written).digest()
