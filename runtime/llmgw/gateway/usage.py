"""Read from an answer how many tokens it cost; estimate where the engine does not say.

``relaying`` gives the end of a stream and of a long body, ``dispatch`` a body that came whole,
``usage_chunk`` the chunk that it takes out.  Pure.  The shapes are those of OpenAI's chat and
completions, of its Responses, and of Anthropic's messages.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

TAIL_BYTES = 8192
"""So much of the end of a body is looked at; engines write their figures last."""

HEAD_BYTES = 2048
"""And so much of its begin, where some providers write them first."""

_BYTES_A_TOKEN = 4
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
"""What can be believed of a number of tokens."""

_FRAMES_WITHOUT_TEXT = 3
"""Of a whole stream: the one that names the role, the one that says why it ended, ``[DONE]``."""

_NAME = b'"usage"'
# An object of figures holds objects of figures, and those hold no more.
_OBJECT = re.compile(rb'"usage"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})')


class Usage(msgspec.Struct, frozen=True, gc=False):
    """What one answer cost; an absent ``cached_tokens`` is unknown, not zero."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None
    is_estimated: bool = False


class _Details(msgspec.Struct):
    cached_tokens: _Count | None = None


class _Said(msgspec.Struct):
    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None
    input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None
    prompt_tokens_details: _Details | None = None
    input_tokens_details: _Details | None = None


_decode = msgspec.json.Decoder(_Said).decode


def of_body(body: bytes) -> Usage | None:
    """What a whole body says, looked for at its end and then at its begin."""
    if len(body) <= TAIL_BYTES:
        return in_text(body)
    return in_text(body[-TAIL_BYTES:]) or in_text(body[:HEAD_BYTES])


def in_text(text: bytes) -> Usage | None:
    """The last usage that ``text`` speaks of, which may begin and end anywhere.

    Text of people cannot be taken for it: within a string the quotes would be escaped.
    """
    at = text.rfind(_NAME)
    while at >= 0:
        if found := _OBJECT.match(text, at):
            return in_object(found[1])
        at = text.rfind(_NAME, 0, at)
    return None


def in_object(said: bytes) -> Usage | None:
    """What one usage object says; nothing if it cannot be believed."""
    try:
        return _of(_decode(said))
    except (msgspec.MsgspecError, RecursionError):  # nested as no figures are
        return None


def estimate(*, request_bytes: int, frames: int, is_whole: bool) -> Usage:
    """What a stream of ``frames`` events cost, about; ``is_whole`` if it said its end."""
    without_text = _FRAMES_WITHOUT_TEXT if is_whole else 1
    return Usage(
        prompt_tokens=request_bytes // _BYTES_A_TOKEN,
        completion_tokens=max(frames - without_text, 0),
        is_estimated=True,
    )


def estimate_body(*, request_bytes: int, body_bytes: int) -> Usage:
    """What a body without figures cost, about."""
    return Usage(
        prompt_tokens=request_bytes // _BYTES_A_TOKEN,
        completion_tokens=body_bytes // _BYTES_A_TOKEN,
        is_estimated=True,
    )


def _of(said: _Said) -> Usage | None:
    prompt, completion = said.prompt_tokens, said.completion_tokens
    if prompt is None:
        prompt = said.input_tokens
    if completion is None:
        completion = said.output_tokens
    if prompt is None and completion is None:
        return None
    details = said.prompt_tokens_details or said.input_tokens_details
    cached = said.cache_read_input_tokens if details is None else details.cached_tokens
    return Usage(prompt or 0, completion or 0, cached)
