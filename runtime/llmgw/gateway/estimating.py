"""Estimate how long a prompt is, and see what it asks of its model; pure.

``arrival`` asks before a request is queued.  Nothing is parsed for a prompt that is short enough
whatever it holds, which is nearly every one.
"""

from __future__ import annotations

from typing import Any

import orjson

from llmgw.gateway.abundance import is_abundant

_BYTES_PER_TOKEN = 4
_IMAGE_TOKENS = 85
"""The least that an image costs at any of the engines; unknown beforehand, and never nothing."""

_LEAST_IMAGE_BYTES = 50
_MOST_PER_BYTE = 1 / _BYTES_PER_TOKEN + _IMAGE_TOKENS / _LEAST_IMAGE_BYTES

_IMAGES = frozenset({"image_url", "input_image", "image"})


def most_tokens(body_bytes: int) -> float:
    """More than the estimate for any body of this size."""
    return body_bytes * _MOST_PER_BYTE


def estimate_tokens(body: bytes) -> int:
    """Tokens of the whole conversation: its text, tools and images; never exact."""
    if is_abundant(body):
        return len(body) // _BYTES_PER_TOKEN
    asked = _read(body)
    text_bytes, images = _weigh(_messages(asked))
    text_bytes += _weigh(asked.get("suffix"))[0]
    text_bytes += max(_longest(asked.get("prompt")), _longest(asked.get("input")))
    if tools := asked.get("tools") or asked.get("functions"):
        text_bytes += _written_bytes(tools)
    return text_bytes // _BYTES_PER_TOKEN + images * _IMAGE_TOKENS


def needs(body: bytes) -> frozenset[str]:
    """The capabilities that a model needs for it, in the words of the catalog."""
    has_tools, has_images = b'"tools"' in body, b"image" in body
    if not (has_tools or has_images) or is_abundant(body):
        return frozenset()
    asked = _read(body)
    needed = set()
    if has_tools and asked.get("tools"):
        needed.add("tools")
    if has_images and _weigh(_messages(asked))[1]:
        needed.add("vision")
    return frozenset(needed)


def _read(body: bytes) -> dict[str, Any]:
    try:
        read: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}  # stricter than what let it pass; its engine will judge
    return read if isinstance(read, dict) else {}


def _messages(asked: dict[str, Any]) -> list[dict[str, Any]]:
    messages = asked.get("messages")
    if not isinstance(messages, list):
        return []
    return [message for message in messages if isinstance(message, dict)]


def _longest(prompts: Any) -> int:
    """Bytes of the longest of several prompts, each of which the model reads by itself."""
    if isinstance(prompts, list) and not all(isinstance(one, int) for one in prompts):
        return max(_weigh(one)[0] for one in prompts)
    return _weigh(prompts)[0]


def _written_bytes(value: Any) -> int:
    try:
        return len(orjson.dumps(value))
    except orjson.JSONEncodeError:  # nested deeper than orjson writes, though it reads it
        return _weigh(value)[0]


def _weigh(value: Any) -> tuple[int, int]:
    """Bytes of text in it, a token that is given as a number counting as text, and images."""
    text_bytes = images = 0
    left = [value]
    while left:  # a client may nest deeper than Python calls itself
        match left.pop():
            case str(text):
                text_bytes += len(text.encode(errors="replace"))
            case int():
                text_bytes += _BYTES_PER_TOKEN
            case {"type": str(kind)} if kind in _IMAGES:
                images += 1
            case dict(fields):
                left.extend(fields.values())
            case list(items):
                left.extend(items)
    return text_bytes, images
