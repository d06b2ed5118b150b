"""Read from a request body what routing needs; the rest of it is never looked at.

``pipeline`` calls ``describe`` once a request; ``dispatch`` calls ``rewrite_model`` only when an
engine knows the model by another name than the client used.  Pure.
"""

from __future__ import annotations

from typing import Any

import msgspec

from llmgw.gateway.replies import Code, Refusal

_LARGE_BYTES = 65536
"""In a longer body the fields that may be anything may be megabytes of it."""

_MOST_FIELD_BYTES = 4096
"""Longer ones say nothing that routing needs, and are never made objects of."""


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


class _Large(msgspec.Struct, frozen=True):
    model: str = ""
    stream: bool | None = None
    prompt_cache_key: msgspec.Raw = msgspec.Raw()
    user: msgspec.Raw = msgspec.Raw()
    stream_options: msgspec.Raw = msgspec.Raw()


_decode_large = msgspec.json.Decoder(_Large).decode
_decode_field = msgspec.json.Decoder().decode
_decode_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def describe(body: bytes) -> Description | Refusal:
    """What the body asks for, or why it cannot be read."""
    try:
        read = _decode(body) if len(body) < _LARGE_BYTES else _of_large(_decode_large(body))
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


def _of_large(read: _Large) -> Description:
    return Description(
        read.model,
        read.stream,
        prompt_cache_key=_small(read.prompt_cache_key, absent=None),
        user=_small(read.user, absent=None),
        stream_options=_small(read.stream_options, absent=msgspec.UNSET),
    )


def _small(raw: msgspec.Raw, *, absent: Any) -> Any:
    """The value of a field; of one that is too long, something that means nothing."""
    if not raw:
        return absent
    return _decode_field(raw) if len(raw) <= _MOST_FIELD_BYTES else False


def _wrong_type(message: str) -> Refusal:
    for field in Description.__struct_fields__:
        if message.endswith(f"`$.{field}`"):
            return _wrong_field(field)
    return Refusal(Code.INVALID_JSON)


def _wrong_field(field: str) -> Refusal:
    return Refusal(Code.INVALID_FIELD, f"`{field}` has the wrong type.", param=field)
