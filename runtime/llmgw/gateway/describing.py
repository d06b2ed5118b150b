"""Read from a request body what routing needs; the rest of it is never looked at.

``pipeline`` calls ``describe`` once a request; ``dispatch`` calls ``rewrite_model`` only when an
engine knows the model by another name than the client used.  Pure.
"""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from llmgw.gateway.replies import Code, Refusal

_LARGE_BYTES = 16384
"""From here on reading everything with orjson is quicker than picking fields with msgspec."""


class Description(msgspec.Struct, frozen=True):
    """The fields of a body that routing needs."""

    model: str = ""
    stream: bool | None = None
    prompt_cache_key: Any = None
    user: Any = None
    stream_options: Any = msgspec.UNSET

    @property
    def session_hint(self) -> str:
        """The name of the session that the request belongs to, as far as its body tells."""
        for hint in (self.prompt_cache_key, self.user):
            if isinstance(hint, str) and hint:
                return hint
        return ""


_MISSING_MODEL = Refusal(Code.MISSING_MODEL, param="model")
_decode = msgspec.json.Decoder(Description).decode
_decode_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def describe(body: bytes) -> Description | Refusal:
    """What the body asks for, or why it cannot be read."""
    if len(body) >= _LARGE_BYTES:
        return _describe_large(body)
    try:
        read = _decode(body)
    except msgspec.ValidationError as error:
        return _wrong_type(str(error))
    except (msgspec.DecodeError, RecursionError):  # nested as deep as no request is
        return Refusal(Code.INVALID_JSON)
    return read if read.model else _MISSING_MODEL


def rewrite_model(body: bytes, name: str) -> bytes:
    """The same body asking for ``name``; the bytes of every other value stay as they are."""
    fields = _decode_raw_fields(body)
    fields["model"] = msgspec.Raw(msgspec.json.encode(name))
    return msgspec.json.encode(fields)


def _describe_large(body: bytes) -> Description | Refusal:
    try:
        read: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Refusal(Code.INVALID_JSON)
    if not isinstance(read, dict):
        return Refusal(Code.INVALID_JSON)
    model, stream = read.get("model", ""), read.get("stream")
    if not isinstance(model, str):
        return _wrong_field("model")
    if stream is not None and not isinstance(stream, bool):
        return _wrong_field("stream")
    if not model:
        return _MISSING_MODEL
    return Description(
        model,
        stream,
        prompt_cache_key=read.get("prompt_cache_key"),
        user=read.get("user"),
        stream_options=read.get("stream_options", msgspec.UNSET),
    )


def _wrong_type(message: str) -> Refusal:
    for field in Description.__struct_fields__:
        if message.endswith(f"`$.{field}`"):
            return _wrong_field(field)
    return Refusal(Code.INVALID_JSON)


def _wrong_field(field: str) -> Refusal:
    return Refusal(Code.INVALID_FIELD, f"`{field}` has the wrong type.", param=field)
